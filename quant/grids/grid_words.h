// The points of a grid as bytes, for decoding kernels.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "quant/grids/grid_values.h"

namespace quant {

// The values of a point by its number, the first in the lowest byte: what ggml's grids hold.
using Grid8Words = std::vector<uint64_t>;
using Grid4Words = std::vector<uint32_t>;

// Each table is made when it is first asked for; any thread may ask.
const Grid8Words& Iq2XxsWords();
const Grid8Words& Iq2XsWords();
const Grid8Words& Iq2SWords();
const Grid4Words& Iq3XxsWords();
const Grid4Words& Iq3SWords();

// kSignBytes[signs] has 0xff in byte i where bit i of the signs is 1.
inline constexpr std::array<uint64_t, 256> kSignBytes = [] {
  std::array<uint64_t, 256> masks{};
  for (size_t signs = 0; signs < masks.size(); ++signs) {
    for (size_t i = 0; i < 8; ++i) masks[signs] |= uint64_t{signs >> i & 1 ? 0xffu : 0u} << 8 * i;
  }
  return masks;
}();

// Flips the signs of the bytes that `signs` names. No byte of a point is 0, so nothing carries
// over.
inline uint64_t WithSigns(uint64_t values, unsigned signs) {
  const uint64_t mask = kSignBytes[signs];
  return (values ^ mask) + (mask & 0x0101010101010101u);
}

}  // namespace quant
