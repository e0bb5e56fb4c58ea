// Searches the scales and minimums of all groups of the super-blocks of all lanes, for q2_K, q4_K
// and q5_K.
#if defined(QUANT_RANGE_FITS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_RANGE_FITS_INL_H_
#undef QUANT_RANGE_FITS_INL_H_
#else
#define QUANT_RANGE_FITS_INL_H_
#endif

#include <array>
#include <cstring>

#include "quant/k_quants/k_bits.h"
#include "quant/lanes-inl.h"
#include "quant/search/requantize-inl.h"
#include "quant/search/search_positive-inl.h"
#include "quant/search/search_range-inl.h"
#include "quant/search/weights-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

// The results of searches for scale and minimum in the super-blocks of all lanes, and the integers
// derived from them.

// What the searches found, of kGroups groups of kGroupValues values in every lane; [group][lane].
template <size_t kGroups>
struct RangeFits {
  HWY_ALIGN float scale[kGroups * kMaxLanes];
  HWY_ALIGN float min[kGroups * kMaxLanes];  // as stored in blocks: not below 0
  HWY_ALIGN float used_min[kGroups * kMaxLanes];
  HWY_ALIGN float used_inverse[kGroups * kMaxLanes];
  HWY_ALIGN float weight_sum[kGroups * kMaxLanes];
  HWY_ALIGN float flat[kGroups * kMaxLanes];  // not 0 where all integers are 0
  bool exact[kMaxLanes];
};

template <size_t kGroups>
HWY_INLINE M StoreFit(const RangeFit& fit, size_t group, RangeFits<kGroups>& fits) {
  const D d;
  const size_t at = group * LaneCount();
  hn::Store(fit.scale, d, fits.scale + at);
  hn::Store(hn::Neg(fit.min), d, fits.min + at);
  hn::Store(fit.used_min, d, fits.used_min + at);
  hn::Store(fit.used_inverse, d, fits.used_inverse + at);
  hn::Store(hn::IfThenElseZero(fit.flat, Splat(1.0f)), d, fits.flat + at);
  return fit.exact;
}

template <size_t kGroups>
HWY_INLINE void RequantizeGroup(const float* x, const RangeFits<kGroups>& fits, size_t at,
                                ScaleAndMin group, int levels, uint8_t* q) {
  constexpr size_t kGroupValues = kSuperBlock / kGroups;
  if (group.scale != 0) {
    RequantizeAbove(x, kGroupValues, group, levels, q);
  } else if (fits.flat[at] != 0) {
    std::memset(q, 0, kGroupValues);
  } else {
    QuantizeAbove(x, kGroupValues, fits.used_min[at], fits.used_inverse[at], levels, q);
  }
}

// group(j) is the rounded scale and minimum of group j of the lane's block.
template <size_t kGroups, class Group>
HWY_INLINE void RequantizeLane(const LaneBlocks& blocks, size_t lane,
                               const RangeFits<kGroups>& fits, const Group& group, int levels,
                               Levels& q) {
  constexpr size_t kGroupValues = kSuperBlock / kGroups;
  for (size_t j = 0; j < kGroups; ++j) {
    RequantizeGroup(blocks.value[lane] + j * kGroupValues, fits, j * LaneCount() + lane, group(j),
                    levels, q.data() + j * kGroupValues);
  }
}

// How many groups of this size are searched together. These numbers were the fastest in
// bench-quant: operations on narrow vectors take less time, so more are needed to hide the same
// latency.
template <size_t kGroupValues>
inline constexpr size_t kSetsOf = HWY_TARGET <= HWY_AVX3 ? 64 / kGroupValues : 4;

// weigh(x, w) computes the groups' weights; vectors are RangeGroups::kStep apart.
template <size_t kGroups, bool kAbsolute, class Weigh>
HWY_INLINE void FitPlainLanes(const LaneBlocks& blocks, const ScaleGrid& grid, const Weigh& weigh,
                              RangeFits<kGroups>& fits) {
  constexpr size_t kGroupValues = kSuperBlock / kGroups;
  constexpr size_t kSets = kSetsOf<kGroupValues>;
  using Groups = RangeGroups<kGroupValues, kSets>;
  Groups groups;
  M exact = AllLanes();
  for (size_t j = 0; j < kGroups; j += kSets) {
    for (size_t s = 0; s < kSets; ++s) {
      LoadTransposed(blocks.value, (j + s) * kGroupValues, kGroupValues, groups.Values(s),
                     Groups::kStep);
      weigh(groups.Values(s), groups.Weights(s));
    }
    RangeFit fit[kSets];
    FitRangeLanes<kAbsolute>(groups, grid, fit);
    for (size_t s = 0; s < kSets; ++s) exact = hn::And(exact, StoreFit(fit[s], j + s, fits));
  }
  StoreMask(exact, fits.exact);
}

// The sums of squares of each lane's block.
HWY_INLINE V SumOfSquaresOf(const LaneBlocks& blocks) {
  constexpr size_t kChunk = 32;
  HWY_ALIGN float x[kChunk * kMaxLanes];
  V sum = hn::Zero(D());
  for (size_t i = 0; i < kSuperBlock; i += kChunk) {
    LoadTransposed(blocks.value, i, kChunk, x);
    sum = AddSquares<kChunk>(x, sum);
  }
  return sum;
}

// The weights smooth the importance by `share` times the mean square of the block.
template <size_t kGroups>
HWY_INLINE void FitWeightedLanes(const LaneBlocks& blocks, const ScaleGrid& grid, float share,
                                 RangeFits<kGroups>& fits) {
  constexpr size_t kGroupValues = kSuperBlock / kGroups;
  constexpr size_t kSets = kSetsOf<kGroupValues>;
  using Groups = RangeGroups<kGroupValues, kSets>;
  Groups groups;
  const V spread = hn::Div(hn::Mul(Splat(share), SumOfSquaresOf(blocks)),
                           Splat(static_cast<float>(kSuperBlock)));
  M exact = AllLanes();
  for (size_t j = 0; j < kGroups; j += kSets) {
    for (size_t s = 0; s < kSets; ++s) {
      const size_t first = (j + s) * kGroupValues;
      LoadTransposed(blocks.value, first, kGroupValues, groups.Values(s), Groups::kStep);
      LoadTransposed(blocks.weight, first, kGroupValues, groups.Weights(s), Groups::kStep);
      const V sum = WeighByImportance<kGroupValues, Groups::kStep>(groups.Values(s), spread,
                                                                   groups.Weights(s));
      hn::Store(sum, D(), fits.weight_sum + (j + s) * LaneCount());
    }
    RangeFit fit[kSets];
    FitRangeLanes<false>(groups, grid, fit);
    for (size_t s = 0; s < kSets; ++s) exact = hn::And(exact, StoreFit(fit[s], j + s, fits));
  }
  StoreMask(exact, fits.exact);
}

// The levels of the group scales of every lane, by lane and group.
template <size_t kGroups>
using LaneLevels = std::array<uint8_t, kGroups>[kMaxLanes];

// `by_group` is [group][lane].
template <size_t kGroups>
HWY_INLINE void TurnLevels(const int32_t* by_group, LaneLevels<kGroups>& levels) {
  for (size_t lane = 0; lane < LaneCount(); ++lane) {
    for (size_t j = 0; j < kGroups; ++j) {
      levels[lane][j] = static_cast<uint8_t>(by_group[j * LaneCount() + lane]);
    }
  }
}

// Sets `d` and the levels of every lane.
template <size_t kGroups>
HWY_INLINE void FitLevelsOfScales(const float* scales, const float* weights, int top, float* d,
                                  LaneLevels<kGroups>& levels) {
  HWY_ALIGN int32_t q[kGroups * kMaxLanes];
  hn::Store(FitPositiveLanes<kGroups>(scales, weights, top, q), D(), d);
  TurnLevels<kGroups>(q, levels);
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
