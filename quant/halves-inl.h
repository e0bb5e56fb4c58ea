// F16 as bits in the lanes of vectors, for one instruction set at a time (Highway includes this
// file once for each).
#if defined(QUANT_HALVES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_HALVES_INL_H_
#undef QUANT_HALVES_INL_H_
#else
#define QUANT_HALVES_INL_H_
#endif

#include "quant/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

using DU = hn::RebindToUnsigned<D>;
using VU = hn::Vec<DU>;

HWY_INLINE VU Bits(uint32_t bits) { return hn::Set(DU(), bits); }
HWY_INLINE V AsFloat(VU bits) { return hn::BitCast(D(), bits); }
HWY_INLINE VU AsBits(V value) { return hn::BitCast(DU(), value); }
HWY_INLINE hn::Mask<DU> Above(VU a, uint32_t b) {  // for numbers below 2^31
  const DI di;
  const auto above = hn::Gt(hn::BitCast(di, a), hn::Set(di, static_cast<int32_t>(b)));
  return hn::RebindMask(DU(), above);
}

// HalfToFloat of half.h.
HWY_INLINE V FloatOfHalf(VU half) {
  const VU sign = hn::ShiftLeft<16>(hn::And(half, Bits(0x8000)));
  const VU magnitude = hn::And(half, Bits(0x7fff));
  const VU normal = hn::Add(hn::ShiftLeft<13>(magnitude), Bits(112u << 23));
  const VU special = hn::Or(Bits(0x7f800000), hn::ShiftLeft<13>(hn::And(magnitude, Bits(0x3ff))));
  const V counted = hn::ConvertTo(D(), hn::BitCast(DI(), magnitude));
  const VU small = AsBits(hn::Mul(counted, Splat(0x1p-24f)));
  VU bits = hn::IfThenElse(Above(magnitude, 0x3ff), normal, small);
  bits = hn::IfThenElse(Above(magnitude, 0x7bff), special, bits);
  return AsFloat(hn::Or(sign, bits));
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
