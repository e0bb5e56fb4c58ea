// The trits of a block, with neighbouring values in the lanes.
#if defined(QUANT_TERNARY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_TERNARY_INL_H_
#undef QUANT_TERNARY_INL_H_
#else
#define QUANT_TERNARY_INL_H_
#endif

#include "quant/search/requantize-inl.h"
#include "quant/ternary/ternary.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

// TernaryTrits of ternary.h.
HWY_INLINE float TernaryTritsOf(const float* x, Levels& trits) {
  const D d;
  const TernaryScale fit = TernaryScaleFor(LargestMagnitudeOf<kSuperBlock>(x));
  const V inverse = Splat(fit.inverse), half = Splat(0.5f), one = Splat(1.0f);
  for (size_t i = 0; i < kSuperBlock; i += LaneCount()) {
    const V value = hn::Mul(hn::LoadU(d, x + i), inverse);
    const V up = hn::IfThenElse(hn::Ge(value, half), Splat(2.0f), one);
    const V level = hn::IfThenZeroElse(hn::Le(value, hn::Neg(half)), up);
    StoreLevels(hn::ConvertTo(DI(), level), trits.data() + i);
  }
  return fit.scale;
}

#if HWY_TARGET != HWY_SCALAR
// Vectors of at most kMost values, for the parts of a block that have no more.
template <size_t kMost>
using TritFloats = hn::CappedTag<float, kMost>;

// Converts stored bytes to integers.
template <class DF>
HWY_INLINE hn::Vec<hn::RebindToSigned<DF>> LoadTernaryBytes(DF, const uint8_t* from) {
  const hn::Rebind<uint8_t, DF> bytes;
  return hn::PromoteTo(hn::RebindToSigned<DF>(), hn::LoadU(bytes, from));
}

// Stores (level - 1) * scale.
template <class DF>
HWY_INLINE void StoreTernary(DF d, hn::Vec<hn::RebindToSigned<DF>> level, float scale, float* out) {
  const hn::RebindToSigned<DF> di;
  const auto trit = hn::ConvertTo(d, hn::Sub(level, hn::Set(di, 1)));
  hn::StoreU(hn::Mul(trit, hn::Set(d, scale)), d, out);
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
