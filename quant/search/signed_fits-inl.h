// Searches the scales of all groups of the super-blocks of all lanes, for q3_K and q6_K.
#if defined(QUANT_SIGNED_FITS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_SIGNED_FITS_INL_H_
#undef QUANT_SIGNED_FITS_INL_H_
#else
#define QUANT_SIGNED_FITS_INL_H_
#endif

#include <cstring>

#include "quant/k_quants/k_bits.h"
#include "quant/lanes-inl.h"
#include "quant/search/requantize-inl.h"
#include "quant/search/search_signed-inl.h"
#include "quant/search/weights-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

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
