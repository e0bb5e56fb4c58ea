#include "quant/k_quants/q4_k.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/k_quants/q4_k.cc"
#include <hwy/foreach_target.h>

#include "quant/search/k_pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

void EncodeQ4KLanes(Values values, Values importance, std::span<std::byte> out) {
  if (!kHasVectors) return EncodeQ4KRef(values, importance, out);
  EncodeInLanes<BlockQ4K>({values, importance, out}, LaneCount(),
                          [](const LaneBlocks& blocks, std::span<BlockQ4K> lanes) {
                            EncodePairs(blocks, kQ4KSearch, MakeBlockQ4K, EncodeQ4KRef, lanes);
                          });
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quant {

HWY_EXPORT(EncodeQ4KLanes);

void EncodeQ4K(Values values, Values importance, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(EncodeQ4KLanes)(values, importance, out);
}

}  // namespace quant
#endif
