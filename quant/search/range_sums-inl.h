// The sums of a search for scale and minimum (search_range-inl.h), over the values of one group of
// every lane.
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

// The distance in vectors from one value of RangeGroups to the next.
inline constexpr size_t kRangeStep = 3;

// Groups of kCount values that are searched together: each addition of a group waits for the
// previous one, and another group's addition can run meanwhile. Values, weights and integers are
// stored side by side, vector by vector. In separate arrays their addresses would have the same
// last twelve bits, and a load then waits for stores (4 KiB aliasing).
template <size_t kCount, size_t kSets>
struct RangeGroups {
  static constexpr size_t kStep = kRangeStep;
  static constexpr size_t kVectors =
      kStep * kCount + 2;  // of a group; two more for the same reason

  HWY_ALIGN float room[kSets * kVectors * kMaxLanes];

  HWY_INLINE float* Values(size_t set) { return room + set * kVectors * LaneCount(); }
  HWY_INLINE float* Weights(size_t set) { return Values(set) + LaneCount(); }
  HWY_INLINE float* Vector(size_t set, size_t i) { return Values(set) + i * kStep * LaneCount(); }
  HWY_INLINE V X(size_t set, size_t i) { return hn::Load(D(), Vector(set, i)); }
  HWY_INLINE V W(size_t set, size_t i) { return hn::Load(D(), Vector(set, i) + LaneCount()); }
  HWY_INLINE float* Level(size_t set, size_t i) { return Vector(set, i) + 2 * LaneCount(); }
};

struct RangeExtent {
  V min, max, sum_w, sum_wx;
};

template <size_t kCount, size_t kSets>
HWY_INLINE RangeExtent ExtentOf(RangeGroups<kCount, kSets>& groups, size_t set) {
  const V x0 = groups.X(set, 0), w0 = groups.W(set, 0);
  RangeExtent extent{x0, x0, w0, hn::Mul(w0, x0)};
  for (size_t i = 1; i < kCount; ++i) {
    const V x = groups.X(set, i), w = groups.W(set, i);
    extent.min = hn::IfThenElse(hn::Lt(x, extent.min), x, extent.min);
    extent.max = hn::IfThenElse(hn::Gt(x, extent.max), x, extent.max);
    extent.sum_w = hn::Add(extent.sum_w, w);
    extent.sum_wx = hn::Add(extent.sum_wx, hn::Mul(w, x));
  }
  extent.min = hn::IfThenZeroElse(hn::Gt(extent.min, hn::Zero(D())), extent.min);
  return extent;
}

// a - b. A product with 1 is exact, so a fused a * 1 - b rounds once and gives the same float. With
// AVX-512 it runs in the multiply units while the others are busy with roundings and sums.
HWY_INLINE V Minus(V a, V b) {
#if HWY_TARGET <= HWY_AVX3
  return hn::MulSub(a, Splat(1.0f), b);
#else
  return hn::Sub(a, b);
#endif
}

// Weighted sums over the integers of a candidate.
struct RangeSums {
  V l, ll, xl;
};

// A candidate of each group: its integers are those of (value - min) * inverse.
struct RangeCandidate {
  V min, inverse;
};

// Leaves the integers, as floats, in the groups. Without kClamp all are known to be in range.
template <bool kClamp, size_t kCount, size_t kSets>
HWY_INLINE void QuantizeAndSum(RangeGroups<kCount, kSets>& groups,
                               const RangeCandidate (&candidates)[kSets], V top,
                               RangeSums (&sums)[kSets]) {
  const D d;
  for (RangeSums& sum : sums) sum = {hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  for (size_t i = 0; i < kCount; ++i) {
    for (size_t s = 0; s < kSets; ++s) {
      const V x = groups.X(s, i);
      V level = hn::Round(hn::Mul(candidates[s].inverse, Minus(x, candidates[s].min)));
      if constexpr (kClamp) level = hn::Min(hn::Max(level, hn::Zero(d)), top);
      hn::Store(level, d, groups.Level(s, i));
      const V wl = hn::Mul(groups.W(s, i), level);
      sums[s].l = hn::Add(sums[s].l, wl);
      sums[s].ll = hn::Add(sums[s].ll, hn::Mul(wl, level));
      sums[s].xl = hn::Add(sums[s].xl, hn::Mul(wl, x));
    }
  }
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

// The errors of scale * level + min.
template <bool kAbsolute, size_t kCount, size_t kSets>
HWY_INLINE void ErrorsOf(RangeGroups<kCount, kSets>& groups, const RangeRegression (&fits)[kSets],
                         V (&errors)[kSets]) {
  const D d;
  for (V& error : errors) error = hn::Zero(d);
  for (size_t i = 0; i < kCount; ++i) {
    for (size_t s = 0; s < kSets; ++s) {
      const V level = hn::Load(d, groups.Level(s, i));
      const V fitted = hn::Add(hn::Mul(fits[s].scale, level), fits[s].min);
      const V difference = hn::Sub(fitted, groups.X(s, i));
      const V cost = kAbsolute ? hn::Abs(difference) : hn::Mul(difference, difference);
      errors[s] = hn::Add(errors[s], hn::Mul(groups.W(s, i), cost));
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
