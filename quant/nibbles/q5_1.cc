#include "quant/nibbles/q5_1.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/nibbles/q5_1.cc"
#include <hwy/foreach_target.h>

#include "quant/search/scale32-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

void EncodeQ51Lanes(Values values, Values importance, std::span<std::byte> out) {
  if (!kHasVectors) return EncodeQ51Ref(values, importance, out);
  EncodeRanged<BlockQ51, kQ51Levels>({values, importance, out}, MakeQ51, EncodeBlockQ51);
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quant {

HWY_EXPORT(EncodeQ51Lanes);

void EncodeQ51(Values values, Values importance, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(EncodeQ51Lanes)(values, importance, out);
}

}  // namespace quant
#endif
