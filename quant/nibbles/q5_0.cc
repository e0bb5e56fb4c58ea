#include "quant/nibbles/q5_0.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/nibbles/q5_0.cc"
#include <hwy/foreach_target.h>

#include "quant/search/scale32-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

void EncodeQ50Lanes(Values values, Values importance, std::span<std::byte> out) {
  if (!kHasVectors) return EncodeQ50Ref(values, importance, out);
  EncodeScaled<BlockQ50, kQ50Levels>({values, importance, out}, MakeQ50, EncodeBlockQ50);
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quant {

HWY_EXPORT(EncodeQ50Lanes);

void EncodeQ50(Values values, Values importance, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(EncodeQ50Lanes)(values, importance, out);
}

}  // namespace quant
#endif
