#include "quant/nibbles/q4_1.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/nibbles/q4_1.cc"
#include <hwy/foreach_target.h>

#include "quant/search/scale32-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

void EncodeQ41Lanes(Values values, Values importance, std::span<std::byte> out) {
  if (!kHasVectors) return EncodeQ41Ref(values, importance, out);
  EncodeRanged<BlockQ41, kQ41Levels>({values, importance, out}, MakeQ41, EncodeBlockQ41);
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quant {

HWY_EXPORT(EncodeQ41Lanes);

void EncodeQ41(Values values, Values importance, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(EncodeQ41Lanes)(values, importance, out);
}

}  // namespace quant
#endif
