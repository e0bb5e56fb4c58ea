// FitScaleAndMin of k_search.h for one group of every lane.
#if defined(QUANT_SEARCH_RANGE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_SEARCH_RANGE_INL_H_
#undef QUANT_SEARCH_RANGE_INL_H_
#else
#define QUANT_SEARCH_RANGE_INL_H_
#endif

#include "quant/k_search.h"
#include "quant/range_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

// As the reference's result, min <= 0 here. The integers are those of (value - used_min) *
// used_inverse. Lanes outside `exact` have to be encoded by the reference.
struct RangeFit {
  V scale, min;
  V used_min, used_inverse;
  M flat;  // scale 0, all integers 0
  M exact;
};

// The float operations are those of the reference; what may differ are conversions to integers
// beyond 2^22 and comparisons with NaN. Products with `inverse` are monotone in the value, so the
// two ends of the range tell whether any of them is that large.
template <size_t kCount, bool kAbsolute>
HWY_INLINE RangeFit FitRangeLanes(const float* x, const float* w, const ScaleGrid& grid) {
  const D d;
  HWY_ALIGN float levels[kCount * kMaxLanes];
  const float top = static_cast<float>(grid.levels);
  const V top_lanes = Splat(top);
  const RangeExtent extent = ExtentOf<kCount>(x, w);
  const M flat = hn::Le(extent.max, extent.min);

  RangeFit best;
  best.flat = flat;
  best.used_min = best.min = extent.min;
  best.used_inverse = hn::Div(top_lanes, hn::Sub(extent.max, extent.min));
  best.scale = hn::Div(Splat(1.0f), best.used_inverse);
  best.exact = RoundsAsNearestInt(hn::Mul(best.used_inverse, hn::Sub(extent.max, extent.min)));
  QuantizeAndSum<kCount, true>(x, w, best.min, best.used_inverse, top_lanes, levels);
  V best_error = ErrorOf<kCount, kAbsolute>(x, w, levels, best.scale, best.min);

  for (int i = 0; i <= grid.last; ++i) {
    const float divisor = grid.first + grid.step * static_cast<float>(i) + top;
    const V inverse = hn::Div(Splat(divisor), hn::Sub(extent.max, best.min));
    const V lowest = hn::Mul(inverse, hn::Sub(extent.min, best.min));
    const V highest = hn::Mul(inverse, hn::Sub(extent.max, best.min));
    const M rounds = hn::And(RoundsAsNearestInt(lowest), RoundsAsNearestInt(highest));
    best.exact = hn::And(best.exact, rounds);
    // 0.499 and not 0.5: ties go to the even neighbour.
    const M in_range = hn::And(hn::Ge(lowest, Splat(-0.5f)), hn::Le(highest, Splat(top + 0.499f)));
    const RangeSums sums =
        hn::AllTrue(d, hn::Or(in_range, flat))
            ? QuantizeAndSum<kCount, false>(x, w, best.min, inverse, top_lanes, levels)
            : QuantizeAndSum<kCount, true>(x, w, best.min, inverse, top_lanes, levels);
    const RangeRegression fit = Regress(extent, sums);
    const V error = ErrorOf<kCount, kAbsolute>(x, w, levels, fit.scale, fit.min);
    const M better = hn::And(fit.valid, hn::Lt(error, best_error));
    best.used_min = hn::IfThenElse(better, best.min, best.used_min);
    best.used_inverse = hn::IfThenElse(better, inverse, best.used_inverse);
    best.scale = hn::IfThenElse(better, fit.scale, best.scale);
    best.min = hn::IfThenElse(better, fit.min, best.min);
    best_error = hn::IfThenElse(better, error, best_error);
  }
  best.scale = hn::IfThenZeroElse(flat, best.scale);
  best.min = hn::IfThenElse(flat, extent.min, best.min);
  const M no_nan = hn::Eq(extent.sum_wx, extent.sum_wx);
  best.exact = hn::And(hn::Or(best.exact, flat), no_nan);
  return best;
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
