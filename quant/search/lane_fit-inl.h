// LevelFit of k_search.h for every lane.
#if defined(QUANT_LANE_FIT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_LANE_FIT_INL_H_
#undef QUANT_LANE_FIT_INL_H_
#else
#define QUANT_LANE_FIT_INL_H_
#endif

#include "quant/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

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

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
