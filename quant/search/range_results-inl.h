// The results of searches for scale and minimum in the super-blocks of all lanes, and the integers
// derived from them.
#if defined(QUANT_RANGE_RESULTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_RANGE_RESULTS_INL_H_
#undef QUANT_RANGE_RESULTS_INL_H_
#else
#define QUANT_RANGE_RESULTS_INL_H_
#endif

#include <cstring>

#include "quant/k_quants/k_bits.h"
#include "quant/search/requantize-inl.h"
#include "quant/search/search_range-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

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

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
