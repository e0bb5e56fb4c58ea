#include "quant/k_quants/q4_k.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/k_quants/q4_k.cc"
#include <hwy/foreach_target.h>

#include "quant/k_quants/k_decode-inl.h"
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

struct PackedQ4K {
  template <size_t kFirst, class DB>
  static HWY_INLINE auto From(DB d, const uint8_t* block, size_t i) {
    return FourBitsFrom<kQ4KDistance, kFirst>(d, block + offsetof(BlockQ4K, qs), i);
  }
};

HWY_INLINE void DecodeBlockQ4K(const uint8_t* block, float* out) {
  GroupRanges<ScalePairs::kGroups> scales;
  LoadPairs(block + offsetof(BlockQ4K, pairs), scales);
  DecodeGroups<PackedQ4K>(block, scales, out);
}

void DecodeQ4KLanes(std::span<const std::byte> in, std::span<float> out) {
  if (!kHasVectors) return DecodeQ4KRef(in, out);
  DecodeEach<BlockQ4K, DecodeBlockQ4K>(in, out);
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

HWY_EXPORT(DecodeQ4KLanes);

void DecodeQ4K(std::span<const std::byte> blocks, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(DecodeQ4KLanes)(blocks, out);
}

}  // namespace quant
#endif
