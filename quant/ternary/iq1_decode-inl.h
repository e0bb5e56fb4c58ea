// Decodes the points of iq1_s and iq1_m, with the values of one point in the lanes.
#if defined(QUANT_IQ1_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_IQ1_DECODE_INL_H_
#undef QUANT_IQ1_DECODE_INL_H_
#else
#define QUANT_IQ1_DECODE_INL_H_
#endif

#include "quant/lanes-inl.h"
#include "quant/ternary/iq1.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR
// DecodeIq1Run of iq1.h. The sum of a level and an eighth is exact.
HWY_INLINE void DecodeIq1RunOf(const Iq1Bytes& point, bool down, float scale, float* out) {
  const hn::CappedTag<float, kIq1Run> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<int8_t, decltype(d)> bytes;
  const auto shift = hn::Set(d, down ? -0.125f : 0.125f), factor = hn::Set(d, scale);
  for (size_t i = 0; i < kIq1Run; i += hn::Lanes(d)) {
    const auto level = hn::PromoteTo(di, hn::LoadU(bytes, point.data() + i));
    hn::StoreU(hn::Mul(factor, hn::Add(hn::ConvertTo(d, level), shift)), d, out + i);
  }
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
