// The steps of a search for scale and minimum (search_range-inl.h): what is summed over the values
// of one group of every lane.
#if defined(QUANT_RANGE_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_RANGE_SUMS_INL_H_
#undef QUANT_RANGE_SUMS_INL_H_
#else
#define QUANT_RANGE_SUMS_INL_H_
#endif

#include "quant/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

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

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
