// FitPairs of k_pairs.h for the blocks of all lanes.
#if defined(QUANT_K_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_K_PAIRS_INL_H_
#undef QUANT_K_PAIRS_INL_H_
#else
#define QUANT_K_PAIRS_INL_H_
#endif

#include "quant/k_pairs.h"
#include "quant/range_fits-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

using PairFits = RangeFits<ScalePairs::kGroups>;

HWY_INLINE void RoundPairs(const PairFits& fits, size_t count, ScalePairs* pairs) {
  for (size_t lane = 0; lane < count; ++lane) {
    pairs[lane] = RoundPairsToLargest(OfLane<ScalePairs::kGroups>(fits.scale, lane),
                                      OfLane<ScalePairs::kGroups>(fits.min, lane));
  }
}

HWY_INLINE void RoundPairsByWeight(const PairFits& fits, size_t count, bool cap,
                                   ScalePairs* pairs) {
  float d[kMaxLanes], dmin[kMaxLanes];
  PairLevels scales[kMaxLanes], mins[kMaxLanes];
  FitLevelsOfScales<ScalePairs::kGroups>(fits.scale, fits.weight_sum, kPairTop, d, scales);
  FitLevelsOfScales<ScalePairs::kGroups>(fits.min, fits.weight_sum, kPairTop, dmin, mins);
  for (size_t lane = 0; lane < count; ++lane) {
    if (cap) {
      CapPairLevels(scales[lane]);
      CapPairLevels(mins[lane]);
    }
    pairs[lane] = MakePairs(d[lane], dmin[lane], scales[lane], mins[lane]);
  }
}

// Calls finish(pairs, q) -> Block for each lane that the searches settled, and reference(values,
// importance, bytes) for the others.
template <class Block, class Finish>
HWY_INLINE void EncodePairs(const LaneBlocks& blocks, const PairSearch& search,
                            const Finish& finish, Encoder reference, std::span<Block> out) {
  PairFits fits;
  ScalePairs pairs[kMaxLanes];
  if (blocks.weighted()) {
    FitWeightedLanes(blocks, search.with_importance, 2.0f, fits);
    RoundPairsByWeight(fits, blocks.count, search.cap_searched, pairs);
  } else {
    FitPlainLanes<ScalePairs::kGroups, false>(
        blocks, search.plain, WeighByMagnitude<ScalePairs::kGroupValues, kRangeStep>, fits);
    RoundPairs(fits, blocks.count, pairs);
  }
  for (size_t lane = 0; lane < blocks.count; ++lane) {
    if (!fits.exact[lane]) {
      EncodeByReference(blocks, lane, reference, out[lane]);
      continue;
    }
    Levels q;
    const auto group = [&](size_t j) { return pairs[lane].Group(j); };
    RequantizeLane(blocks, lane, fits, group, search.plain.levels, q);
    out[lane] = finish(pairs[lane], q);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
