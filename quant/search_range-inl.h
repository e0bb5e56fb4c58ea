// FitScaleAndMin of k_search.h for one group of every lane.
#if defined(QUANT_SEARCH_RANGE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_SEARCH_RANGE_INL_H_
#undef QUANT_SEARCH_RANGE_INL_H_
#else
#define QUANT_SEARCH_RANGE_INL_H_
#endif

#include "quant/k_search.h"
#include "quant/lanes-inl.h"

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

struct RangeExtent {
  V min, max, sum_w, sum_wx;
};

template <size_t kCount>
HWY_INLINE RangeExtent ExtentOf(const float* x, const float* w) {
  const D d;
  const size_t lanes = LaneCount();
  const V x0 = hn::Load(d, x), w0 = hn::Load(d, w);
  RangeExtent extent{x0, x0, w0, hn::Mul(w0, x0)};
  for (size_t i = 1; i < kCount; ++i) {
    const V xi = hn::Load(d, x + i * lanes), wi = hn::Load(d, w + i * lanes);
    extent.min = hn::IfThenElse(hn::Lt(xi, extent.min), xi, extent.min);
    extent.max = hn::IfThenElse(hn::Gt(xi, extent.max), xi, extent.max);
    extent.sum_w = hn::Add(extent.sum_w, wi);
    extent.sum_wx = hn::Add(extent.sum_wx, hn::Mul(wi, xi));
  }
  extent.min = hn::IfThenZeroElse(hn::Gt(extent.min, hn::Zero(d)), extent.min);
  return extent;
}

// Weighted sums over the integers of a candidate.
struct RangeSums {
  V l, ll, xl;
};

// Leaves the integers, as floats, in `levels`. Without kClamp every one is known to be in range.
template <size_t kCount, bool kClamp>
HWY_INLINE RangeSums QuantizeAndSum(const float* x, const float* w, V min, V inverse, V top,
                                    float* levels) {
  const D d;
  const size_t lanes = LaneCount();
  RangeSums sums{hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  for (size_t i = 0; i < kCount; ++i) {
    const V xi = hn::Load(d, x + i * lanes);
    V level = hn::Round(hn::Mul(inverse, hn::Sub(xi, min)));
    if constexpr (kClamp) level = hn::Min(hn::Max(level, hn::Zero(d)), top);
    hn::Store(level, d, levels + i * lanes);
    const V wl = hn::Mul(hn::Load(d, w + i * lanes), level);
    sums.l = hn::Add(sums.l, wl);
    sums.ll = hn::Add(sums.ll, hn::Mul(wl, level));
    sums.xl = hn::Add(sums.xl, hn::Mul(wl, xi));
  }
  return sums;
}

template <size_t kCount, bool kAbsolute>
HWY_INLINE V ErrorOf(const float* x, const float* w, const float* levels, V scale, V min) {
  const D d;
  const size_t lanes = LaneCount();
  V error = hn::Zero(d);
  for (size_t i = 0; i < kCount; ++i) {
    const V fitted = hn::Add(hn::Mul(scale, hn::Load(d, levels + i * lanes)), min);
    const V difference = hn::Sub(fitted, hn::Load(d, x + i * lanes));
    const V cost = kAbsolute ? hn::Abs(difference) : hn::Mul(difference, difference);
    error = hn::Add(error, hn::Mul(hn::Load(d, w + i * lanes), cost));
  }
  return error;
}

struct RangeRegression {
  V scale, min;
  M valid;
};

HWY_INLINE RangeRegression Regress(const RangeExtent& extent, const RangeSums& sums) {
  const D d;
  const V determinant = hn::Sub(hn::Mul(extent.sum_w, sums.ll), hn::Mul(sums.l, sums.l));
  const V scale =
      hn::Div(hn::Sub(hn::Mul(extent.sum_w, sums.xl), hn::Mul(extent.sum_wx, sums.l)), determinant);
  const V min =
      hn::Div(hn::Sub(hn::Mul(sums.ll, extent.sum_wx), hn::Mul(sums.l, sums.xl)), determinant);
  const M above = hn::Gt(min, hn::Zero(d));
  return {hn::IfThenElse(above, hn::Div(sums.xl, sums.ll), scale), hn::IfThenZeroElse(above, min),
          hn::Gt(determinant, hn::Zero(d))};
}

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
