// Sums of products in the lanes of vectors, for one instruction set at a time (Highway includes
// this file once for each): they are added up in the same way for all products.
#if defined(MOEPACK_CPU_DOTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOEPACK_CPU_DOTS_INL_H_
#undef MOEPACK_CPU_DOTS_INL_H_
#else
#define MOEPACK_CPU_DOTS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace moepack::runtime {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVector = hn::Vec<FloatTag>;

// Adds neighbouring lanes until each vector's sum is one lane: two vectors are combined into one,
// so that all sums end up side by side. kLeft is the number of lanes that a sum still has.
template <size_t kLeft, size_t kCount>
HWY_INLINE void SumLanes(const FloatVector (&vectors)[kCount], float* sums) {
  const FloatTag d;
  if constexpr (kLeft == 1) {
    for (size_t i = 0; i < kCount; ++i) hn::Store(vectors[i], d, sums + i * hn::Lanes(d));
  } else {
#if HWY_TARGET != HWY_SCALAR
    constexpr size_t kPairs = (kCount + 1) / 2;
    FloatVector pairs[kPairs];
    for (size_t i = 0; i < kPairs; ++i) {
      const FloatVector a = vectors[2 * i], b = vectors[std::min(2 * i + 1, kCount - 1)];
      pairs[i] = hn::Add(hn::ConcatEven(d, b, a), hn::ConcatOdd(d, b, a));
    }
    SumLanes<kLeft / 2, kPairs>(pairs, sums);
#endif
  }
}

// y (+)= sums
template <size_t kRows>
HWY_INLINE void PutSums(const float* sums, bool add, float* y) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kRows % 4 == 0) {
    const hn::FixedTag<float, 4> four;
    for (size_t r = 0; r < kRows; r += 4) {
      auto sum = hn::Load(four, sums + r);
      if (add) sum = hn::Add(hn::LoadU(four, y + r), sum);
      hn::StoreU(sum, four, y + r);
    }
    return;
  }
#endif
  for (size_t r = 0; r < kRows; ++r) y[r] = add ? y[r] + sums[r] : sums[r];
}

}  // namespace HWY_NAMESPACE
}  // namespace moepack::runtime
HWY_AFTER_NAMESPACE();

#endif
