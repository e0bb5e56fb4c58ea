#include "quant/k_quants/q5_k.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/k_quants/q5_k.cc"
#include <hwy/foreach_target.h>

#include "quant/k_quants/k_decode-inl.h"
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

struct PackedQ5K {
  template <size_t kFirst, class DB>
  static HWY_INLINE auto From(DB d, const uint8_t* block, size_t i) {
    const auto low = FourBitsFrom<kQ5KDistance, kFirst>(d, block + offsetof(BlockQ5K, qs), i);
    const auto fifth = OneBitFrom<kFirst>(d, block + offsetof(BlockQ5K, qh), i);
    return hn::Or(low, hn::ShiftLeft<4>(fifth));
  }
};

HWY_INLINE void DecodeBlockQ5K(const uint8_t* block, float* out) {
  GroupRanges<ScalePairs::kGroups> scales;
  LoadPairs(block + offsetof(BlockQ5K, pairs), scales);
  DecodeGroups<PackedQ5K>(block, scales, out);
}

void DecodeQ5KLanes(std::span<const std::byte> in, std::span<float> out) {
  if (!kHasVectors) return DecodeQ5KRef(in, out);
  DecodeEach<BlockQ5K, DecodeBlockQ5K>(in, out);
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

HWY_EXPORT(DecodeQ5KLanes);

void DecodeQ5K(std::span<const std::byte> blocks, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(DecodeQ5KLanes)(blocks, out);
}

}  // namespace quant
#endif
