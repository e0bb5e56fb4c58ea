#include "quant/k_quants/q2_k.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/k_quants/q2_k.cc"
#include <hwy/foreach_target.h>

#include "quant/k_quants/k_decode-inl.h"
#include "quant/legacy/nibbles-inl.h"
#include "quant/search/range_fits-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

using Fits = RangeFits<BlockQ2K::kGroups>;

// Without importance ggml only rounds the group scales; with importance it searches levels for them
// too. q2_k_ref.cc has the same two ways.
void RoundScales(const Fits& fits, size_t count, BlockQ2K* out) {
  for (size_t lane = 0; lane < count; ++lane) {
    out[lane] = RoundQ2KToLargest(OfLane<BlockQ2K::kGroups>(fits.scale, lane),
                                  OfLane<BlockQ2K::kGroups>(fits.min, lane));
  }
}

void RoundScalesByWeight(const Fits& fits, size_t count, BlockQ2K* out) {
  HWY_ALIGN float d[kMaxLanes], dmin[kMaxLanes];
  LevelsQ2K scales[kMaxLanes], mins[kMaxLanes];
  FitLevelsOfScales<BlockQ2K::kGroups>(fits.scale, fits.weight_sum, kQ2KTopOfScale, d, scales);
  FitLevelsOfScales<BlockQ2K::kGroups>(fits.min, fits.weight_sum, kQ2KTopOfScale, dmin, mins);
  for (size_t lane = 0; lane < count; ++lane) {
    out[lane] = MakeScalesQ2K(d[lane], dmin[lane], scales[lane], mins[lane]);
  }
}

void EncodeLanes(const LaneBlocks& blocks, std::span<BlockQ2K> out) {
  Fits fits;
  if (blocks.weighted()) {
    FitWeightedLanes(blocks, kQ2KImportanceGrid, 1.0f, fits);
    RoundScalesByWeight(fits, blocks.count, out.data());
  } else {
    FitPlainLanes<BlockQ2K::kGroups, true>(blocks, kQ2KPlainGrid, WeighByAbs<16, kRangeStep>, fits);
    RoundScales(fits, blocks.count, out.data());
  }
  for (size_t lane = 0; lane < blocks.count; ++lane) {
    // A lane with NaN, or with a product outside the range of nearest_int, goes to the reference.
    if (!fits.exact[lane]) {
      EncodeByReference(blocks, lane, EncodeQ2KRef, out[lane]);
      continue;
    }
    Levels q;
    const auto group = [&](size_t j) { return out[lane].Group(j); };
    RequantizeLane(blocks, lane, fits, group, kQ2KTop, q);
    PackTwoBits(q, 0, out[lane].qs);
  }
}

void EncodeQ2KLanes(Values values, Values importance, std::span<std::byte> out) {
  if (!kHasVectors) return EncodeQ2KRef(values, importance, out);
  EncodeInLanes<BlockQ2K>({values, importance, out}, LaneCount(), EncodeLanes);
}

struct PackedQ2K {
  template <size_t kFirst, class DB>
  static HWY_INLINE auto From(DB d, const uint8_t* block, size_t i) {
    return TwoBitsFrom<kFirst>(d, block + offsetof(BlockQ2K, qs), i);
  }
};

HWY_INLINE void DecodeBlockQ2K(const uint8_t* block, float* out) {
  constexpr size_t kGroups = BlockQ2K::kGroups;
  const NibbleHalves levels = LoadNibbles(block + offsetof(BlockQ2K, scales));
  HWY_ALIGN uint8_t low[kGroups], high[kGroups];
  hn::Store(levels.low, DBytes16(), low);
  hn::Store(levels.high, DBytes16(), high);
  GroupRanges<kGroups> scales;
  ScaleLevels<kGroups>(low, LoadHalf(block + offsetof(BlockQ2K, d)), scales.scale);
  ScaleLevels<kGroups>(high, LoadHalf(block + offsetof(BlockQ2K, dmin)), scales.min);
  DecodeGroups<PackedQ2K>(block, scales, out);
}

void DecodeQ2KLanes(std::span<const std::byte> in, std::span<float> out) {
  if (!kHasVectors) return DecodeQ2KRef(in, out);
  DecodeEach<BlockQ2K, DecodeBlockQ2K>(in, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quant {

HWY_EXPORT(EncodeQ2KLanes);

void EncodeQ2K(Values values, Values importance, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(EncodeQ2KLanes)(values, importance, out);
}

HWY_EXPORT(DecodeQ2KLanes);

void DecodeQ2K(std::span<const std::byte> blocks, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(DecodeQ2KLanes)(blocks, out);
}

}  // namespace quant
#endif
