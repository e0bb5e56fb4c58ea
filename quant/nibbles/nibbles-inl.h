// Unpacks sixteen bytes to 32 integers of four bits.
#if defined(QUANT_NIBBLES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_NIBBLES_INL_H_
#undef QUANT_NIBBLES_INL_H_
#else
#define QUANT_NIBBLES_INL_H_
#endif

#include "quant/lanes-inl.h"
#include "quant/nibbles/nibbles.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR
struct NibbleHalves {
  hn::Vec<hn::Full128<uint8_t>> low, high;
};

HWY_INLINE NibbleHalves LoadNibbles(const void* pairs) {
  const hn::Full128<uint8_t> bytes;
  const hn::Full128<uint16_t> words;
  const auto both = hn::LoadU(bytes, static_cast<const uint8_t*>(pairs));
  const auto mask = hn::Set(bytes, 15);
  const auto shifted = hn::BitCast(bytes, hn::ShiftRight<4>(hn::BitCast(words, both)));
  return {hn::And(both, mask), hn::And(shifted, mask)};
}

// Converts as many bytes as there are lanes to floats.
template <class Byte>
HWY_INLINE V LoadBytes(const Byte* from) {
  const hn::Rebind<Byte, D> bytes;
  return hn::ConvertTo(D(), hn::PromoteTo(DI(), hn::LoadU(bytes, from)));
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
