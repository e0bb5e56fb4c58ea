// FitScaleAndMin of k_search.h for one group of every lane.
#if defined(QUANT_SEARCH_RANGE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_SEARCH_RANGE_INL_H_
#undef QUANT_SEARCH_RANGE_INL_H_
#else
#define QUANT_SEARCH_RANGE_INL_H_
#endif

#include "quant/search/k_search.h"
#include "quant/search/range_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

// The result of a search; unlike the reference's, min is <= 0. The integers are those of (value -
// used_min) * used_inverse. The reference has to encode the lanes outside `exact`.
struct RangeFit {
  V scale, min;
  V used_min, used_inverse;
  M flat;  // scale 0, all integers 0
  M exact;
};

// The state of a group during the search.
struct RangeState {
  RangeExtent extent;
  RangeFit best;
};

HWY_INLINE RangeState StartRange(const RangeExtent& extent, float top) {
  RangeState state;
  state.extent = extent;
  RangeFit& best = state.best;
  best.flat = hn::Le(extent.max, extent.min);
  best.used_min = best.min = extent.min;
  best.used_inverse = hn::Div(Splat(top), hn::Sub(extent.max, extent.min));
  best.scale = hn::Div(Splat(1.0f), best.used_inverse);
  best.exact = RoundsAsNearestInt(hn::Mul(best.used_inverse, hn::Sub(extent.max, extent.min)));
  return state;
}

// Sets the next candidate and returns whether some of its integers may have to be clamped. Products
// with `inverse` are monotone in the value, so checking both ends of the range is enough.
HWY_INLINE bool NextCandidate(float divisor, V top, RangeState& state, RangeCandidate& candidate) {
  const RangeExtent& extent = state.extent;
  candidate.min = state.best.min;
  candidate.inverse = hn::Div(Splat(divisor), hn::Sub(extent.max, candidate.min));
  const V a = hn::Mul(candidate.inverse, hn::Sub(extent.min, candidate.min));
  const V b = hn::Mul(candidate.inverse, hn::Sub(extent.max, candidate.min));
  const M rounds = hn::And(RoundsAsNearestInt(a), RoundsAsNearestInt(b));
  state.best.exact = hn::And(state.best.exact, rounds);
  // 0.499 instead of 0.5, because ties go to the even neighbour, which may be out of range.
  const V highest = hn::Add(top, Splat(0.499f));
  const M above = hn::And(hn::Ge(a, Splat(-0.5f)), hn::Ge(b, Splat(-0.5f)));
  const M below = hn::And(hn::Le(a, highest), hn::Le(b, highest));
  return !hn::AllTrue(D(), hn::Or(hn::And(above, below), state.best.flat));
}

HWY_INLINE void TakeBetter(const RangeCandidate& candidate, const RangeRegression& fit, V error,
                           RangeFit& best, V& best_error) {
  const M better = hn::And(fit.valid, hn::Lt(error, best_error));
  best.used_min = hn::IfThenElse(better, candidate.min, best.used_min);
  best.used_inverse = hn::IfThenElse(better, candidate.inverse, best.used_inverse);
  best.scale = hn::IfThenElse(better, fit.scale, best.scale);
  best.min = hn::IfThenElse(better, fit.min, best.min);
  best_error = hn::IfThenElse(better, error, best_error);
}

HWY_INLINE RangeFit FinishRange(const RangeState& state) {
  const RangeExtent& extent = state.extent;
  RangeFit best = state.best;
  best.scale = hn::IfThenZeroElse(best.flat, best.scale);
  best.min = hn::IfThenElse(best.flat, extent.min, best.min);
  const M no_nan = hn::Eq(extent.sum_wx, extent.sum_wx);
  best.exact = hn::And(hn::Or(best.exact, best.flat), no_nan);
  return best;
}

// The float operations are those of the reference. Only conversions to integers beyond 2^22 and
// comparisons with NaN may differ, and lanes with those are not exact.
template <bool kAbsolute, size_t kCount, size_t kSets>
HWY_INLINE void FitRangeLanes(RangeGroups<kCount, kSets>& groups, const ScaleGrid& grid,
                              RangeFit (&fits)[kSets]) {
  const float top = static_cast<float>(grid.levels);
  const V top_lanes = Splat(top);
  RangeState states[kSets];
  RangeCandidate candidates[kSets];
  RangeSums sums[kSets];
  RangeRegression found[kSets];
  V best_errors[kSets], errors[kSets];
  for (size_t s = 0; s < kSets; ++s) {
    states[s] = StartRange(ExtentOf(groups, s), top);
    const RangeFit& start = states[s].best;
    candidates[s] = {start.used_min, start.used_inverse};
    found[s] = {start.scale, start.min, start.exact};
  }
  QuantizeAndSum<true>(groups, candidates, top_lanes, sums);
  ErrorsOf<kAbsolute>(groups, found, best_errors);
  for (int i = 0; i <= grid.last; ++i) {
    const float divisor = grid.first + grid.step * static_cast<float>(i) + top;
    bool clamp = false;
    for (size_t s = 0; s < kSets; ++s) {
      clamp |= NextCandidate(divisor, top_lanes, states[s], candidates[s]);
    }
    if (clamp) {
      QuantizeAndSum<true>(groups, candidates, top_lanes, sums);
    } else {
      QuantizeAndSum<false>(groups, candidates, top_lanes, sums);
    }
    for (size_t s = 0; s < kSets; ++s) found[s] = Regress(states[s].extent, sums[s]);
    ErrorsOf<kAbsolute>(groups, found, errors);
    for (size_t s = 0; s < kSets; ++s) {
      TakeBetter(candidates[s], found[s], errors[s], states[s].best, best_errors[s]);
    }
  }
  for (size_t s = 0; s < kSets; ++s) fits[s] = FinishRange(states[s]);
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
