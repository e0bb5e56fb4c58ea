// The codes of fp4.h in lanes.
#if defined(QUANT_FP4_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_FP4_INL_H_
#undef QUANT_FP4_INL_H_
#else
#define QUANT_FP4_INL_H_
#endif

#include "quant/legacy/nibbles-inl.h"
#include "quant/search/requantize-inl.h"
#include "quant/tables/fp4.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

// NearestFp4Code for scales whose products with the middles are exact and values of at most 2^20
// times the scale: the differences that the reference compares are then exact, or so far apart that
// rounding keeps their order. A value in the middle gets the code of lower magnitude, and zero gets
// only the code without a sign.
HWY_INLINE VI NearestFp4CodeOf(V value, float scale) {
  const D d;
  const V magnitude = hn::Abs(value);
  V code = hn::Zero(d);
  for (const float middle : kFp4Middles) {
    const M above = hn::Gt(magnitude, Splat(middle * scale));
    code = hn::Add(code, hn::IfThenElseZero(above, Splat(1.0f)));
  }
  const M negative = hn::And(hn::Lt(value, hn::Zero(d)), hn::Gt(code, hn::Zero(d)));
  return hn::ConvertTo(DI(), hn::Add(code, hn::IfThenElseZero(negative, Splat(8.0f))));
}

// The codes by number, for a table look-up.
HWY_INLINE hn::Vec<DCodes> Fp4Codes() {
  HWY_ALIGN static constexpr int8_t kCodes[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                                  0, -1, -2, -3, -4, -6, -8, -12};
  return hn::Load(DCodes(), kCodes);
}

HWY_INLINE hn::Vec<DCodes> Fp4CodesOf(VBytes16 indices) {
  return hn::TableLookupBytes(Fp4Codes(), hn::BitCast(DCodes(), indices));
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
