#pragma once

#include "quant/grids/grid_block.h"

namespace quant {

// iq2_s: 256 values in 82 bytes (2.5625 bits each). Little-endian, no alignment required.
//
//   bytes    field    meaning
//   0-1      d        F16
//   2-33     qs       low eight bits of the numbers of 32 points
//   34-65    signs    one byte for each eight values, bit i is value i, 1 is a minus
//   66-73    qh       upper two bits of the numbers: those of point k in bits 2 * (k % 4) and above
//                     of byte k / 4
//   74-81    scales   4-bit scales s of 16 groups of 16, group j in the low (even j) or high half
//                     of byte j / 2
//
// value[i] = +-d * (s + 1/2) / 4 * kIq2Values[level i].
struct BlockIq2S {
  static constexpr size_t kValues = kSuperBlock;
  uint16_t d;
  uint8_t qs[32];
  uint8_t signs[32];
  uint8_t qh[8];
  uint8_t scales[8];
};
static_assert(sizeof(BlockIq2S) == 82);

// Source: quantize_row_iq2_s_impl of ggml-quants.c.
inline constexpr GridRules kIq2SRules = {
    .group_values = 16,
    .even_signs = false,
    .spread = 2,
    .plain = PlainWeight::kSmoothed,
    .zero_limit = 1e-8f,
    .last = 9,
    .step = 0.1f,
    .positive_start = false,
    .refit = Refit::kOffGrid,
    .factor = 0.9875f,
};

// Puts the fields in their places.
BlockIq2S PackIq2S(const GridBlock& fit);

// Encoder and Decoder of format.h.
void EncodeIq2S(std::span<const float> values, std::span<const float> importance,
                std::span<std::byte> out);
void EncodeIq2SRef(std::span<const float> values, std::span<const float> importance,
                   std::span<std::byte> out);
void DecodeIq2S(std::span<const std::byte> blocks, std::span<float> out);
void DecodeIq2SRef(std::span<const std::byte> blocks, std::span<float> out);

}  // namespace quant
