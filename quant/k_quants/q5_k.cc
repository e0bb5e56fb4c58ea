#include "quant/k_quants/q5_k.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/k_quants/q5_k.cc"
#include <hwy/foreach_target.h>

#include "quant/search/k_pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

void EncodeQ5KLanes(Values values, Values importance, std::span<std::byte> out) {
  if (!kHasVectors) return EncodeQ5KRef(values, importance, out);
  EncodeInLanes<BlockQ5K>({values, importance, out}, LaneCount(),
                          [](const LaneBlocks& blocks, std::span<BlockQ5K> lanes) {
                            EncodePairs(blocks, kQ5KSearch, MakeBlockQ5K, EncodeQ5KRef, lanes);
                          });
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quant {

HWY_EXPORT(EncodeQ5KLanes);

void EncodeQ5K(Values values, Values importance, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(EncodeQ5KLanes)(values, importance, out);
}

}  // namespace quant
#endif
