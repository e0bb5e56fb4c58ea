// Unpacks sixteen bytes to 32 integers of four bits, and what the decoders of blocks of 32 do with
// them.
#if defined(QUANT_NIBBLES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_NIBBLES_INL_H_
#undef QUANT_NIBBLES_INL_H_
#else
#define QUANT_NIBBLES_INL_H_
#endif

#include "quant/decode-inl.h"
#include "quant/nibbles/nibbles.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

// Sixteen bytes; fewer only where there are no vectors, and there no kernel runs.
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

// out[i] = d * (q[i] - levels).
HWY_INLINE void DecodeSigned32(const NibbleHalves& halves, uint8_t levels, float d, float* out) {
  const DBytes16 bytes;
  const VBytes16 shift = hn::Set(bytes, levels);
  HWY_ALIGN uint8_t q[kGroup32];
  hn::Store(hn::Sub(halves.low, shift), bytes, q);
  hn::Store(hn::Sub(halves.high, shift), bytes, q + 16);
  DecodeScaled<kGroup32>(reinterpret_cast<const int8_t*>(q), d, out);
}

// out[i] = d * q[i] + m. REQUIRES: at most one of d and m is not finite. The sum of two values that
// are NaN is one of them, and compilers choose which.
HWY_INLINE void DecodeRanged32(const NibbleHalves& halves, float d, float m, float* out) {
  const DBytes16 bytes;
  HWY_ALIGN uint8_t q[kGroup32];
  hn::Store(halves.low, bytes, q);
  hn::Store(halves.high, bytes, q + 16);
  const V scale = Splat(d), min = Splat(m);
  for (size_t i = 0; i < kGroup32; i += LaneCount()) {
    hn::StoreU(hn::Add(hn::Mul(LoadBytes(D(), q + i), scale), min), D(), out + i);
  }
}

// out[i] = scale * codes[q[i]].
HWY_INLINE void DecodeCodes32(const NibbleHalves& halves, hn::Vec<DCodes> codes, float scale,
                              float* out) {
  const DCodes bytes;
  HWY_ALIGN int8_t q[kGroup32];
  hn::Store(hn::TableLookupBytes(codes, hn::BitCast(bytes, halves.low)), bytes, q);
  hn::Store(hn::TableLookupBytes(codes, hn::BitCast(bytes, halves.high)), bytes, q + 16);
  DecodeScaled<kGroup32>(q, scale, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
