// The values that the levels of the grid types stand for.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "quant/grids/grid.h"
#include "quant/grids/grid_block.h"

namespace quant {

// The fields that several grid types share.

// The seven sign bits stored for eight values, an even number of which is negative.
inline unsigned SevenSigns(unsigned signs) { return signs & 127; }
// The eighth sign is the parity of the seven (ksigns_iq2xs of ggml).
inline unsigned EightSigns(unsigned seven) {
  return seven | (static_cast<unsigned>(__builtin_popcount(seven)) & 1u) << 7;
}

// A 32-bit word of iq2_xxs and iq3_xxs: the signs of four times eight values, seven bits each, and
// the scale of the group in the upper four bits.
struct SignWord {
  static uint32_t Load(const uint8_t* from) {
    uint32_t word = 0;
    std::memcpy(&word, from, sizeof(word));
    return word;
  }
  static void Store(const GridBlock& fit, size_t group, uint8_t* to) {
    uint32_t word = uint32_t{fit.scales[group]} << 28;
    for (size_t k = 0; k < 4; ++k) word |= SevenSigns(fit.signs[4 * group + k]) << 7 * k;
    std::memcpy(to, &word, sizeof(word));
  }
  static unsigned Signs(uint32_t word, size_t k) { return EightSigns(word >> 7 * k & 127); }
  static unsigned Scale(uint32_t word) { return word >> 28; }
};

// Packs two scales into each byte, the first of two in the low half.
inline void PackHalfBytes(const std::array<uint8_t, 16>& scales, std::span<uint8_t> out) {
  for (size_t j = 0; j < 2 * out.size(); j += 2) {
    out[j / 2] = static_cast<uint8_t>(scales[j] | scales[j + 1] << 4);
  }
}

inline unsigned HalfByteOf(std::span<const uint8_t> packed, size_t j) {
  return packed[j / 2] >> j % 2 * 4 & 15u;
}

// The values by level, as ggml's grids have them.
using Grid8Values = std::array<int8_t, Grid8::kLevels>;
using Grid4Values = std::array<int8_t, Grid4::kLevels>;
inline constexpr Grid8Values kIq2Values = {8, 25, 43};  // of iq2_xxs, iq2_xs and iq2_s
inline constexpr Grid4Values kIq3XxsValues = {4, 12, 20, 28, 36, 44, 52, 62};
inline constexpr Grid4Values kIq3SValues = {1, 3, 5, 7, 9, 11, 13, 15};

// Decodes one point. Bit i of `signs` is value i.
template <class Grid>
void DecodeGridPoint(uint16_t point, const std::array<int8_t, Grid::kLevels>& values,
                     unsigned signs, float scale, float* out) {
  for (size_t i = 0; i < Grid::kSize; ++i) {
    const int value = values[Grid::LevelOf(point, i)];
    out[i] = scale * static_cast<float>((signs >> i & 1) != 0 ? -value : value);
  }
}

}  // namespace quant
