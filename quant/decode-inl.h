// What the decoders of types with blocks share, for one instruction set at a time (Highway includes
// this file once for each). The lanes hold neighbouring values of one block: a value is computed
// from its own integer alone, so the order of the lanes cannot be seen in the result.
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

// A number of a block.
template <class Number>
HWY_INLINE Number LoadNumber(const uint8_t* from) {
  Number number;
  std::memcpy(&number, from, sizeof(Number));
  return number;
}

HWY_INLINE float LoadHalf(const uint8_t* from) { return HalfToFloat(LoadNumber<uint16_t>(from)); }

// Converts as many bytes as `d` has lanes to floats. Byte is uint8_t or int8_t.
template <class Byte, class DF>
HWY_INLINE hn::Vec<DF> LoadBytes(DF d, const Byte* from) {
  const hn::Rebind<Byte, DF> bytes;
  const hn::Rebind<int32_t, DF> integers;
  return hn::ConvertTo(d, hn::PromoteTo(integers, hn::LoadU(bytes, from)));
}

// out[i] = scale * q[i].
template <size_t kCount, class Byte>
HWY_INLINE void DecodeScaled(const Byte* q, float scale, float* out) {
  const D d;
  const V scales = Splat(scale);
  for (size_t i = 0; i < kCount; i += LaneCount()) {
    hn::StoreU(hn::Mul(scales, LoadBytes(d, q + i)), d, out + i);
  }
}

// out[i] = scale * q[i] - min.
template <size_t kCount>
HWY_INLINE void DecodeAbove(const uint8_t* q, float scale, float min, float* out) {
  const D d;
  const V scales = Splat(scale), mins = Splat(min);
  for (size_t i = 0; i < kCount; i += LaneCount()) {
    hn::StoreU(hn::Sub(hn::Mul(scales, LoadBytes(d, q + i)), mins), d, out + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
