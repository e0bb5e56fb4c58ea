// Decodes 4-bit integers as checkpoints pack them: two neighbours in a byte, with one scale and
// zero point per run.
#pragma once

#include <cstddef>
#include <span>

namespace quant {

struct NibbleScale {
  float zero, scale;
};

// out[i] = (code[i] - zero) * scale; code[i] is the low half of byte i / 2 for even i, the high
// half for odd i. `pairs` has one byte for every two values, rounded up.
void DecodeNibblePairs(std::span<const std::byte> pairs, NibbleScale scale, std::span<float> out);
void DecodeNibblePairsRef(std::span<const std::byte> pairs, NibbleScale scale,
                          std::span<float> out);

}  // namespace quant
