// FitPairs of k_pairs.h for the blocks of all lanes.
#if defined(QUANT_K_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_K_PAIRS_INL_H_
#undef QUANT_K_PAIRS_INL_H_
#else
#define QUANT_K_PAIRS_INL_H_
#endif

#include "quant/search/k_pairs.h"
#include "quant/search/range_fits-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

using PairFits = RangeFits<ScalePairs::kGroups>;

// The numbers that become the scale pairs of every lane.
struct LanePairs {
  HWY_ALIGN float d[kMaxLanes];
  HWY_ALIGN float dmin[kMaxLanes];
  LaneLevels<ScalePairs::kGroups> scales, mins;
};

// RoundToLargest of k_pairs.cc for every lane. Levels are bytes before they are capped.
HWY_INLINE void RoundToLargest(const float* scales, float* d,
                               LaneLevels<ScalePairs::kGroups>& levels) {
  const DI di;
  const V zero = hn::Zero(D()), top = Splat(kPairTop);
  HWY_ALIGN int32_t q[ScalePairs::kGroups * kMaxLanes];
  V largest = zero;
  for (size_t j = 0; j < ScalePairs::kGroups; ++j) {
    const V scale = hn::Load(D(), scales + j * LaneCount());
    largest = hn::IfThenElse(hn::Gt(scale, largest), scale, largest);
  }
  const V inverse = hn::IfThenElseZero(hn::Gt(largest, zero), hn::Div(top, largest));
  for (size_t j = 0; j < ScalePairs::kGroups; ++j) {
    const V scaled = hn::Mul(inverse, hn::Load(D(), scales + j * LaneCount()));
    const VI byte = hn::And(NearestIntOf(scaled), hn::Set(di, 255));
    hn::Store(hn::Min(byte, hn::Set(di, kPairTop)), di, q + j * LaneCount());
  }
  hn::Store(hn::Div(largest, top), D(), d);
  TurnLevels<ScalePairs::kGroups>(q, levels);
}

HWY_INLINE void RoundPairsByWeight(const PairFits& fits, bool cap, LanePairs& out) {
  FitLevelsOfScales<ScalePairs::kGroups>(fits.scale, fits.weight_sum, kPairTop, out.d, out.scales);
  FitLevelsOfScales<ScalePairs::kGroups>(fits.min, fits.weight_sum, kPairTop, out.dmin, out.mins);
  if (!cap) return;
  for (size_t lane = 0; lane < LaneCount(); ++lane) {
    CapPairLevels(out.scales[lane]);
    CapPairLevels(out.mins[lane]);
  }
}

// Calls finish(pairs, q) -> Block for each lane whose search is exact, and reference(values,
// importance, bytes) for the others.
template <class Block, class Finish>
HWY_INLINE void EncodePairs(const LaneBlocks& blocks, const PairSearch& search,
                            const Finish& finish, Encoder reference, std::span<Block> out) {
  PairFits fits;
  LanePairs rounded;
  if (blocks.weighted()) {
    FitWeightedLanes(blocks, search.with_importance, 2.0f, fits);
    RoundPairsByWeight(fits, search.cap_searched, rounded);
  } else {
    FitPlainLanes<ScalePairs::kGroups, false>(
        blocks, search.plain, WeighByMagnitude<ScalePairs::kGroupValues, kRangeStep>, fits);
    RoundToLargest(fits.scale, rounded.d, rounded.scales);
    RoundToLargest(fits.min, rounded.dmin, rounded.mins);
  }
  for (size_t lane = 0; lane < blocks.count; ++lane) {
    if (!fits.exact[lane]) {
      EncodeByReference(blocks, lane, reference, out[lane]);
      continue;
    }
    const ScalePairs pairs =
        MakePairs(rounded.d[lane], rounded.dmin[lane], rounded.scales[lane], rounded.mins[lane]);
    Levels q;
    const auto group = [&](size_t j) { return pairs.Group(j); };
    RequantizeLane(blocks, lane, fits, group, search.plain.levels, q);
    out[lane] = finish(pairs, q);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
