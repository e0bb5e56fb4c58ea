#include "quant/k_quants/q2_k.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/k_quants/q2_k.cc"
#include <hwy/foreach_target.h>

#include "quant/k_quants/k_decode-inl.h"
#include "quant/nibbles/nibbles-inl.h"
#include "quant/search/range_fits-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

using Fits = RangeFits<BlockQ2K::kGroups>;

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

HWY_INLINE void DecodeBlockQ2K(const uint8_t* block, float* out) {
  constexpr size_t kGroups = BlockQ2K::kGroups, kGroupValues = kSuperBlock / kGroups;
  HWY_ALIGN float scale[kGroups], min[kGroups];
  HWY_ALIGN uint8_t levels[2 * kGroups];
  const NibbleHalves halves = LoadNibbles(block + offsetof(BlockQ2K, scales));
  hn::Store(halves.low, DBytes16(), levels);
  hn::Store(halves.high, DBytes16(), levels + kGroups);
  ScaleLevels<kGroups>(levels, LoadHalf(block + offsetof(BlockQ2K, d)), scale);
  ScaleLevels<kGroups>(levels + kGroups, LoadHalf(block + offsetof(BlockQ2K, dmin)), min);
  const DPlane d;
  HWY_ALIGN uint8_t q[kPlane];
  for (size_t j = 0; j < kPlanes; ++j) {
    for (size_t l = 0; l < kPlane; l += hn::Lanes(d)) {
      hn::Store(TwoBitsFrom(block + offsetof(BlockQ2K, qs), j * kPlane + l), d, q + l);
    }
    for (size_t half = 0; half < 2; ++half) {
      const size_t group = 2 * j + half;
      DecodeAbove<kGroupValues>(q + half * kGroupValues, scale[group], min[group],
                                out + group * kGroupValues);
    }
  }
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
