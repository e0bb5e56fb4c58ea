// FitPositive of k_search.h for one group of every lane.
#if defined(QUANT_SEARCH_POSITIVE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_SEARCH_POSITIVE_INL_H_
#undef QUANT_SEARCH_POSITIVE_INL_H_
#else
#define QUANT_SEARCH_POSITIVE_INL_H_
#endif

#include "quant/lanes-inl.h"
#include "quant/search/k_search.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

// LevelFit of k_search.h for every lane.

// `wx` is the product of weight and value.
struct LaneFit {
  V xl, ll;

  HWY_INLINE void Add(V weight, V wx, V level) {
    xl = hn::Add(xl, hn::Mul(wx, level));
    ll = hn::Add(ll, hn::Mul(hn::Mul(weight, level), level));
  }
  HWY_INLINE void Remove(V weight, V wx, V level) {
    xl = hn::Sub(xl, hn::Mul(wx, level));
    ll = hn::Sub(ll, hn::Mul(hn::Mul(weight, level), level));
  }
  HWY_INLINE M BetterThan(const LaneFit& other) const {
    return hn::Gt(hn::Mul(hn::Mul(xl, xl), other.ll), hn::Mul(hn::Mul(other.xl, other.xl), ll));
  }
  HWY_INLINE V Scale() const {
    return hn::IfThenElseZero(hn::Gt(ll, hn::Zero(D())), hn::Div(xl, ll));
  }
  HWY_INLINE void Take(M mask, const LaneFit& other) {
    xl = hn::IfThenElse(mask, other.xl, xl);
    ll = hn::IfThenElse(mask, other.ll, ll);
  }
};

HWY_INLINE VI LowByte(VI level) { return hn::And(level, hn::Set(DI(), 255)); }

HWY_INLINE VI PositiveLevel(V value, int levels) {
  return hn::Min(NearestIntOf(value), hn::Set(DI(), levels));
}

// With kWrapped the level is kept in a byte and has no bound (WrappedLevel of k_search.cc).
template <size_t kCount, bool kWrapped>
HWY_INLINE V ErrorAtScale(const float* x, const float* w, int levels, V inverse) {
  const D d;
  const V scale = hn::Div(Splat(1.0f), inverse);
  V error = hn::Zero(d);
  for (size_t i = 0; i < kCount; ++i) {
    const V xi = hn::Load(d, x + i * LaneCount());
    const V scaled = hn::Mul(inverse, xi);
    const VI level = kWrapped ? LowByte(NearestIntOf(scaled)) : PositiveLevel(scaled, levels);
    const V difference = hn::Sub(xi, hn::Mul(scale, ToFloat(level)));
    const V weighted = hn::Mul(hn::Load(d, w + i * LaneCount()), difference);
    error = hn::Add(error, hn::Mul(weighted, difference));
  }
  return error;
}

template <size_t kCount>
HWY_INLINE V BestInverseScale(const float* x, const float* w, int levels, V max) {
  const float top = static_cast<float>(levels);
  V best_inverse = hn::Div(Splat(top), max);
  V best_error = ErrorAtScale<kCount, true>(x, w, levels, best_inverse);
  for (int step = -4; step <= 4; ++step) {
    if (step == 0) continue;
    const V inverse = hn::Div(Splat(0.1f * static_cast<float>(step) + top), max);
    const V error = ErrorAtScale<kCount, false>(x, w, levels, inverse);
    const M better = hn::Lt(error, best_error);
    best_error = hn::IfThenElse(better, error, best_error);
    best_inverse = hn::IfThenElse(better, inverse, best_inverse);
  }
  return best_inverse;
}

// Moves each integer to its optimum given all others, in the lanes of `active`. Returns the lanes
// in which one moved.
template <size_t kCount>
HWY_INLINE M MovePositiveLevels(const float* x, const float* w, int levels, LaneFit& fit,
                                int32_t* q) {
  const D d;
  const DI di;
  M moved = hn::Lt(Splat(1.0f), Splat(0.0f));
  for (size_t i = 0; i < kCount; ++i) {
    const V xi = hn::Load(d, x + i * LaneCount()), wi = hn::Load(d, w + i * LaneCount());
    const V wxi = hn::Mul(wi, xi);
    const VI old = hn::Load(di, q + i * LaneCount());
    LaneFit others = fit;
    others.Remove(wi, wxi, ToFloat(old));
    const M positive = hn::And(hn::Gt(others.xl, hn::Zero(d)), hn::Gt(others.ll, hn::Zero(d)));
    const VI level = PositiveLevel(hn::Div(hn::Mul(xi, others.ll), others.xl), levels);
    const M other_level = hn::RebindMask(d, hn::Ne(level, old));
    others.Add(wi, wxi, ToFloat(level));
    const M better = hn::And(hn::And(positive, other_level), others.BetterThan(fit));
    hn::Store(hn::IfThenElse(hn::RebindMask(di, better), LowByte(level), old), di,
              q + i * LaneCount());
    fit.Take(better, others);
    moved = hn::Or(moved, better);
  }
  return moved;
}

// Writes integers of 0 ... levels (up to 255 if wrapped) to `q`, which has kCount vectors like `x`
// and `w`, and returns the scales. A lane in which nothing moves in one round does not move
// anything in the next.
template <size_t kCount>
HWY_INLINE V FitPositiveLanes(const float* x, const float* w, int levels, int32_t* q) {
  const D d;
  const DI di;
  V max = hn::Zero(d);
  for (size_t i = 0; i < kCount; ++i) {
    const V xi = hn::Load(d, x + i * LaneCount());
    max = hn::IfThenElse(hn::Lt(max, xi), xi, max);
  }
  const V inverse = BestInverseScale<kCount>(x, w, levels, max);
  LaneFit fit{hn::Zero(d), hn::Zero(d)};
  for (size_t i = 0; i < kCount; ++i) {
    const V xi = hn::Load(d, x + i * LaneCount());
    const VI level = PositiveLevel(hn::Mul(inverse, xi), levels);
    hn::Store(LowByte(level), di, q + i * LaneCount());
    const V wi = hn::Load(d, w + i * LaneCount());
    fit.Add(wi, hn::Mul(wi, xi), ToFloat(level));
  }
  for (int round = 0; round < 5; ++round) {
    if (hn::AllFalse(d, MovePositiveLevels<kCount>(x, w, levels, fit, q))) break;
  }
  const M zero = hn::Lt(max, Splat(kZeroGroup));
  for (size_t i = 0; i < kCount; ++i) {
    const VI level = hn::Load(di, q + i * LaneCount());
    hn::Store(hn::IfThenZeroElse(hn::RebindMask(di, zero), level), di, q + i * LaneCount());
  }
  return hn::IfThenZeroElse(zero, fit.Scale());
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
