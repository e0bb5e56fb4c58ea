// Code shared by the decoders of block types, for one instruction set at a time (Highway includes
// this file once for each). The lanes hold neighbouring values of one block. Each value is computed
// from its own integer alone, so the order of the lanes does not affect the result.
#if defined(QUANT_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_DECODE_INL_H_
#undef QUANT_DECODE_INL_H_
#else
#define QUANT_DECODE_INL_H_
#endif

#include <cassert>
#include <cstring>
#include <span>

#include "quant/half.h"
#include "quant/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

// Calls kDecode(block, out) for the blocks of a row in order. Blocks may be at any address, so they
// are given as bytes. DecodeBlocks of blocks.h cannot be used: it is compiled without this
// instruction set and would call a function for each block.
template <class Block, void (*kDecode)(const uint8_t* block, float* out)>
HWY_INLINE void DecodeEach(std::span<const std::byte> in, std::span<float> out) {
  const size_t count = in.size() / sizeof(Block);
  assert(in.size() % sizeof(Block) == 0 && out.size() == count * Block::kValues);
  const auto* block = reinterpret_cast<const uint8_t*>(in.data());
  float* values = out.data();
  for (size_t i = 0; i < count; ++i, block += sizeof(Block), values += Block::kValues) {
    kDecode(block, values);
  }
}

// A number stored in a block.
template <class Number>
HWY_INLINE Number LoadNumber(const uint8_t* from) {
  Number number;
  std::memcpy(&number, from, sizeof(Number));
  return number;
}

// HalfToFloat, except that a NaN may become quiet, as it does in any product.
HWY_INLINE float LoadHalf(const uint8_t* from) {
  const auto half = LoadNumber<uint16_t>(from);
#if HWY_TARGET <= HWY_AVX2
  const hn::Full128<float> floats;
  const hn::Rebind<hwy::float16_t, decltype(floats)> halves;
  const hn::Rebind<uint16_t, decltype(floats)> bits;
  return hn::GetLane(hn::PromoteTo(floats, hn::BitCast(halves, hn::Set(bits, half))));
#else
  return HalfToFloat(half);
#endif
}

// Converts as many bytes as `d` has lanes to floats. Byte is uint8_t or int8_t.
template <class Byte, class DF>
HWY_INLINE hn::Vec<DF> LoadBytes(DF d, const Byte* from) {
  const hn::Rebind<Byte, DF> bytes;
  const hn::Rebind<int32_t, DF> integers;
  return hn::ConvertTo(d, hn::PromoteTo(integers, hn::LoadU(bytes, from)));
}

// scale * q.
struct Scaled {
  V scale;
  HWY_INLINE V Of(V q) const { return hn::Mul(scale, q); }
};

// scale * q - min.
struct ScaledAbove {
  V scale, min;
  HWY_INLINE V Of(V q) const { return hn::Sub(hn::Mul(scale, q), min); }
};

// scale * q + min. At most one of them may be NaN or infinite: the sum of two NaNs is one of the
// two, and the compiler chooses which.
struct ScaledPlus {
  V scale, min;
  HWY_INLINE V Of(V q) const { return hn::Add(hn::Mul(scale, q), min); }
};

// out[i] = value.Of(q[i]) for the bytes of a vector, which has as many lanes as one of floats or
// more. They are not stored and reloaded four at a time, because g++ turns that into moves through
// scalar registers.
template <class Value, class DB>
HWY_INLINE void DecodeBytes(DB, hn::Vec<DB> q, const Value& value, float* out) {
  if constexpr (hn::MaxLanes(DB()) <= hn::MaxLanes(D())) {
    hn::StoreU(value.Of(hn::ConvertTo(D(), hn::PromoteTo(DI(), q))), D(), out);
  } else {
#if HWY_TARGET != HWY_SCALAR  // HWY_SCALAR has no halves of vectors
    const hn::Half<DB> half;
    DecodeBytes(half, hn::LowerHalf(half, q), value, out);
    DecodeBytes(half, hn::UpperHalf(half, q), value, out + hn::MaxLanes(half));
#endif
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
