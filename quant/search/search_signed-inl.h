// FitSigned of k_search.h for one group of every lane.
#if defined(QUANT_SEARCH_SIGNED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_SEARCH_SIGNED_INL_H_
#undef QUANT_SEARCH_SIGNED_INL_H_
#else
#define QUANT_SEARCH_SIGNED_INL_H_
#endif

#include <cstring>

#include "quant/k_quants/k_bits.h"
#include "quant/lanes-inl.h"
#include "quant/search/k_search.h"
#include "quant/search/requantize-inl.h"
#include "quant/search/weights-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

// The integers are those of value * used_inverse, plus `levels`. The reference has to encode the
// lanes outside `exact`.
struct SignedFit {
  V scale, used_inverse;
  M zero;  // scale 0, all integers 0
  M exact;
};

struct SignedExtent {
  V largest;  // by magnitude; of equal ones, the first
  V min, max;
  M no_nan;
};

template <size_t kCount>
HWY_INLINE SignedExtent SignedExtentOf(const float* x) {
  const D d;
  SignedExtent extent{hn::Zero(d), hn::Zero(d), hn::Zero(d), AllLanes()};
  for (size_t i = 0; i < kCount; ++i) {
    const V xi = hn::Load(d, x + i * LaneCount());
    const M larger = hn::Gt(hn::Abs(xi), hn::Abs(extent.largest));
    extent.largest = hn::IfThenElse(larger, xi, extent.largest);
    extent.min = hn::Min(xi, extent.min);
    extent.max = hn::Max(xi, extent.max);
    extent.no_nan = hn::And(extent.no_nan, hn::Eq(xi, xi));
  }
  return extent;
}

HWY_INLINE M IsFinite(const SignedExtent& extent) {
  return hn::And(extent.no_nan, hn::Le(hn::Abs(extent.largest), Splat(0x1.fffffep127f)));
}

// Sums of w * x * l and w * l * l over the integers l at a scale. Without kClamp all are known to
// be in range.
struct SignedSums {
  V xl, ll;
};

template <size_t kCount, bool kClamp>
HWY_INLINE SignedSums SumAtScale(const float* x, const float* w, const float* wx, int levels,
                                 V inverse) {
  const D d;
  const V lowest = Splat(-static_cast<float>(levels));
  const V highest = Splat(static_cast<float>(levels - 1));
  SignedSums sums{hn::Zero(d), hn::Zero(d)};
  for (size_t i = 0; i < kCount; ++i) {
    const size_t at = i * LaneCount();
    V level = hn::Round(hn::Mul(inverse, hn::Load(d, x + at)));
    if constexpr (kClamp) level = hn::Min(hn::Max(level, lowest), highest);
    sums.xl = hn::Add(sums.xl, hn::Mul(hn::Load(d, wx + at), level));
    sums.ll = hn::Add(sums.ll, hn::Mul(hn::Mul(hn::Load(d, w + at), level), level));
  }
  return sums;
}

// Chooses the cheaper of the two sums. The bound is 0.499 instead of 0.5, because ties go to the
// even neighbour.
template <size_t kCount>
HWY_INLINE SignedSums SumAtScale(const float* x, const float* w, const float* wx, int levels,
                                 V inverse, const SignedExtent& extent) {
  const V a = hn::Mul(inverse, extent.min), b = hn::Mul(inverse, extent.max);
  const M low = hn::Ge(hn::Min(a, b), Splat(-static_cast<float>(levels) - 0.499f));
  const M high = hn::Le(hn::Max(a, b), Splat(static_cast<float>(levels) - 0.501f));
  return hn::AllTrue(D(), hn::And(low, high)) ? SumAtScale<kCount, false>(x, w, wx, levels, inverse)
                                              : SumAtScale<kCount, true>(x, w, wx, levels, inverse);
}

// If the largest magnitude is finite and not below kZeroGroup, all products are below 2^22, where
// Round equals NearestInt.
template <size_t kCount>
HWY_INLINE SignedFit FitSignedLanes(const float* x, const float* w, int levels) {
  const D d;
  HWY_ALIGN float wx[kCount * kMaxLanes];
  for (size_t i = 0; i < kCount; ++i) {
    const size_t at = i * LaneCount();
    hn::Store(hn::Mul(hn::Load(d, w + at), hn::Load(d, x + at)), d, wx + at);
  }
  const SignedExtent extent = SignedExtentOf<kCount>(x);
  const V largest = extent.largest;
  const float top = static_cast<float>(levels);
  SignedFit best;
  best.zero = hn::Lt(hn::Abs(largest), Splat(kZeroGroup));
  best.exact = IsFinite(extent);
  best.used_inverse = hn::Div(Splat(-top), largest);
  const SignedSums first = SumAtScale<kCount>(x, w, wx, levels, best.used_inverse, extent);
  best.scale = hn::IfThenZeroElse(hn::Eq(first.ll, hn::Zero(d)), hn::Div(first.xl, first.ll));
  V best_gain = hn::Mul(best.scale, first.xl);
  for (int step = -9; step <= 9; ++step) {
    if (step == 0) continue;
    const V inverse = hn::Div(Splat(-(top + 0.1f * static_cast<float>(step))), largest);
    const SignedSums sums = SumAtScale<kCount>(x, w, wx, levels, inverse, extent);
    const M better = hn::And(hn::Gt(sums.ll, hn::Zero(d)),
                             hn::Gt(hn::Mul(sums.xl, sums.xl), hn::Mul(best_gain, sums.ll)));
    const V scale = hn::Div(sums.xl, sums.ll);
    best.used_inverse = hn::IfThenElse(better, inverse, best.used_inverse);
    best.scale = hn::IfThenElse(better, scale, best.scale);
    best_gain = hn::IfThenElse(better, hn::Mul(scale, sums.xl), best_gain);
  }
  best.scale = hn::IfThenZeroElse(best.zero, best.scale);
  return best;
}

// Searches the scales of all groups of the super-blocks of all lanes, for q3_K and q6_K.

inline constexpr size_t kSignedGroups = 16;
inline constexpr size_t kSignedGroupValues = kSuperBlock / kSignedGroups;

// The results of the searches; [group][lane].
struct SignedFits {
  HWY_ALIGN float scale[kSignedGroups * kMaxLanes];
  HWY_ALIGN float used_inverse[kSignedGroups * kMaxLanes];
  HWY_ALIGN float zero[kSignedGroups * kMaxLanes];  // not 0 where all integers are 0
  bool exact[kMaxLanes];
};

HWY_INLINE M StoreFit(const SignedFit& fit, size_t group, SignedFits& fits) {
  const D d;
  const size_t at = group * LaneCount();
  hn::Store(fit.scale, d, fits.scale + at);
  hn::Store(fit.used_inverse, d, fits.used_inverse + at);
  hn::Store(hn::IfThenElseZero(fit.zero, Splat(1.0f)), d, fits.zero + at);
  return fit.exact;
}

// Finds the integers of a group once its scale is rounded.
HWY_INLINE void RequantizeGroup(const float* x, const SignedFits& fits, size_t at, float scale,
                                int levels, uint8_t* q) {
  if (scale != 0) {
    RequantizeSigned(x, kSignedGroupValues, scale, levels, q);
  } else if (fits.zero[at] != 0) {
    std::memset(q, 0, kSignedGroupValues);
  } else {
    QuantizeSigned(x, kSignedGroupValues, fits.used_inverse[at], levels, q);
  }
}

// scale_of(j) is the rounded scale of group j of the lane's block.
template <class ScaleOf>
HWY_INLINE void RequantizeLane(const LaneBlocks& blocks, size_t lane, const SignedFits& fits,
                               const ScaleOf& scale_of, int levels, Levels& q) {
  for (size_t j = 0; j < kSignedGroups; ++j) {
    RequantizeGroup(blocks.value[lane] + j * kSignedGroupValues, fits, j * LaneCount() + lane,
                    scale_of(j), levels, q.data() + j * kSignedGroupValues);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
