// The fields that several grid types share.
#pragma once

#include <array>
#include <cstring>
#include <span>

#include "quant/grids/grid_block.h"

namespace quant {

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

}  // namespace quant
