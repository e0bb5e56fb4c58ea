// The decoding loop of the grid types.
#if defined(QUANT_GRID_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_GRID_DECODE_INL_H_
#undef QUANT_GRID_DECODE_INL_H_
#else
#define QUANT_GRID_DECODE_INL_H_
#endif

#include <cstring>

#include "quant/grids/grid_words.h"
#include "quant/half.h"
#include "quant/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

// Calls decode_block(block, out) for blocks in order. DecodeBlocks is compiled without this
// instruction set and would call a function per block.
template <class Block, class DecodeBlock>
HWY_INLINE void DecodeEachBlock(std::span<const std::byte> in, std::span<float> out,
                                const DecodeBlock& decode_block) {
  for (size_t i = 0; i < in.size() / sizeof(Block); ++i) {
    Block block;
    std::memcpy(&block, in.data() + i * sizeof(block), sizeof(block));
    decode_block(block, out.data() + i * Block::kValues);
  }
}

// Eight values of a block: signed bytes times a scale.
HWY_INLINE void StoreEight(uint64_t bytes, float scale, float* out) {
  const hn::CappedTag<float, 8> d;
  const hn::Rebind<int8_t, decltype(d)> bytes_of;
  const hn::Rebind<int32_t, decltype(d)> ints_of;
  int8_t values[8];
  std::memcpy(values, &bytes, sizeof(values));
  for (size_t i = 0; i < 8; i += hn::Lanes(d)) {
    const auto ints = hn::PromoteTo(ints_of, hn::LoadU(bytes_of, values + i));
    hn::StoreU(hn::Mul(hn::Set(d, scale), hn::ConvertTo(d, ints)), d, out + i);
  }
}

HWY_INLINE uint64_t TwoPoints(const Grid4Words& words, unsigned first, unsigned second) {
  return uint64_t{words[first]} | uint64_t{words[second]} << 32;
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
