// Makes the weights of the searches (k_search.h), for one group of every lane. Vectors are kStep
// apart.
#if defined(QUANT_WEIGHTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_WEIGHTS_INL_H_
#undef QUANT_WEIGHTS_INL_H_
#else
#define QUANT_WEIGHTS_INL_H_
#endif

#include "quant/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

template <size_t kCount, size_t kStep = 1>
HWY_INLINE V AddSquares(const float* x, V sum) {
  const D d;
  for (size_t i = 0; i < kCount; ++i) {
    const V xi = hn::Load(d, x + i * kStep * LaneCount());
    sum = hn::Add(sum, hn::Mul(xi, xi));
  }
  return sum;
}

template <size_t kCount, size_t kStep = 1>
HWY_INLINE V SumOfSquares(const float* x) {
  return AddSquares<kCount, kStep>(x, hn::Zero(D()));
}

// w = |x| + root mean square of the group.
template <size_t kCount, size_t kStep = 1>
HWY_INLINE void WeighByMagnitude(const float* x, float* w) {
  const D d;
  const V mean = hn::Div(SumOfSquares<kCount, kStep>(x), Splat(static_cast<float>(kCount)));
  const V rms = hn::Sqrt(mean);
  for (size_t i = 0; i < kCount; ++i) {
    const size_t at = i * kStep * LaneCount();
    hn::Store(hn::Add(rms, hn::Abs(hn::Load(d, x + at))), d, w + at);
  }
}

// w = |x|.
template <size_t kCount, size_t kStep = 1>
HWY_INLINE void WeighByAbs(const float* x, float* w) {
  const D d;
  for (size_t i = 0; i < kCount; ++i) {
    const size_t at = i * kStep * LaneCount();
    hn::Store(hn::Abs(hn::Load(d, x + at)), d, w + at);
  }
}

// w = x^2.
template <size_t kCount, size_t kStep = 1>
HWY_INLINE void WeighBySquare(const float* x, float* w) {
  const D d;
  for (size_t i = 0; i < kCount; ++i) {
    const V xi = hn::Load(d, x + i * kStep * LaneCount());
    hn::Store(hn::Mul(xi, xi), d, w + i * kStep * LaneCount());
  }
}

// w becomes w * sqrt(spread + x^2); returns the sums over the groups.
template <size_t kCount, size_t kStep = 1>
HWY_INLINE V WeighByImportance(const float* x, V spread, float* w) {
  const D d;
  V sum = hn::Zero(d);
  for (size_t i = 0; i < kCount; ++i) {
    const size_t at = i * kStep * LaneCount();
    const V xi = hn::Load(d, x + at);
    const V root = hn::Sqrt(hn::Add(spread, hn::Mul(xi, xi)));
    const V weight = hn::Mul(hn::Load(d, w + at), root);
    hn::Store(weight, d, w + at);
    sum = hn::Add(sum, weight);
  }
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
