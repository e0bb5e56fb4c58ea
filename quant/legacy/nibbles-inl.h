// Unpacks sixteen bytes to 32 four-bit integers and turns them into the values of a block of 32.
#if defined(QUANT_NIBBLES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_NIBBLES_INL_H_
#undef QUANT_NIBBLES_INL_H_
#else
#define QUANT_NIBBLES_INL_H_
#endif

#include "quant/decode-inl.h"
#include "quant/legacy/nibbles.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

// Sixteen bytes; fewer only without vectors, where no kernel runs.
using DBytes16 = hn::CappedTag<uint8_t, 16>;
using VBytes16 = hn::Vec<DBytes16>;
using DCodes = hn::RebindToSigned<DBytes16>;

struct NibbleHalves {
  VBytes16 low, high;
};

HWY_INLINE NibbleHalves LoadNibbles(const uint8_t* pairs) {
  const DBytes16 bytes;
  const VBytes16 both = hn::LoadU(bytes, pairs);
  return {hn::And(both, hn::Set(bytes, 15)), hn::ShiftRight<4>(both)};
}

// AddFifthBits of nibbles.h.
HWY_INLINE void OrFifthBits(const uint8_t* packed, NibbleHalves& halves) {
  const DBytes16 bytes;
  const VBytes16 fifth = hn::Set(bytes, 16);
  const auto low = hn::LoadMaskBits(bytes, packed), high = hn::LoadMaskBits(bytes, packed + 2);
  halves.low = hn::Or(halves.low, hn::IfThenElseZero(low, fifth));
  halves.high = hn::Or(halves.high, hn::IfThenElseZero(high, fifth));
}

// out[i] = value.Of(q[i]).
template <class Value>
HWY_INLINE void Decode32(const NibbleHalves& q, const Value& value, float* out) {
  DecodeBytes(DBytes16(), q.low, value, out);
  DecodeBytes(DBytes16(), q.high, value, out + 16);
}

// out[i] = value.Of(q[i] - levels).
template <class Value>
HWY_INLINE void DecodeSigned32(const NibbleHalves& q, uint8_t levels, const Value& value,
                               float* out) {
  const DBytes16 bytes;
  const VBytes16 shift = hn::Set(bytes, levels);
  DecodeBytes(DCodes(), hn::BitCast(DCodes(), hn::Sub(q.low, shift)), value, out);
  DecodeBytes(DCodes(), hn::BitCast(DCodes(), hn::Sub(q.high, shift)), value, out + 16);
}

// out[i] = scale * codes[q[i]].
HWY_INLINE void DecodeCodes32(const NibbleHalves& q, hn::Vec<DCodes> codes, float scale,
                              float* out) {
  const DCodes bytes;
  const Scaled value{Splat(scale)};
  DecodeBytes(bytes, hn::TableLookupBytes(codes, hn::BitCast(bytes, q.low)), value, out);
  DecodeBytes(bytes, hn::TableLookupBytes(codes, hn::BitCast(bytes, q.high)), value, out + 16);
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
