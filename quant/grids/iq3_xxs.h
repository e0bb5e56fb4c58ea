#pragma once

#include "quant/grids/grid_block.h"

namespace quant {

// iq3_xxs: 256 values in 98 bytes (3.0625 bits each). Little-endian, no alignment required.
//
//   bytes    field    meaning
//   0-1      d        F16
//   2-65     qs       the numbers of 64 points, a byte each
//   66-97    words    one word of 32 bits per group of 32: the signs of four times eight values,
//                     seven bits each, and the group's scale s in bits 28-31
//
// value[i] = +-d * (s + 1/2) / 2 * kIq3XxsValues[level i]; signs as in iq2_xxs.
struct BlockIq3Xxs {
  static constexpr size_t kValues = kSuperBlock;
  uint16_t d;
  uint8_t qs[64];
  uint8_t words[32];
};
static_assert(sizeof(BlockIq3Xxs) == 98);

// Source: quantize_row_iq3_xxs_impl of ggml-quants.c.
inline constexpr GridRules kIq3XxsRules = {
    .group_values = 32,
    .even_signs = true,
    .spread = 2,
    .plain = PlainWeight::kSquare,
    .zero_limit = 1e-8f,
    .last = 15,
    .step = 0.2f,
    .positive_start = false,
    .refit = Refit::kOffGrid,
    .factor = 1.0125f,
};

// Puts the fields in their places.
BlockIq3Xxs PackIq3Xxs(const GridBlock& fit);

// Encoder and Decoder of format.h.
void EncodeIq3Xxs(std::span<const float> values, std::span<const float> importance,
                  std::span<std::byte> out);
void EncodeIq3XxsRef(std::span<const float> values, std::span<const float> importance,
                     std::span<std::byte> out);
void DecodeIq3Xxs(std::span<const std::byte> blocks, std::span<float> out);
void DecodeIq3XxsRef(std::span<const std::byte> blocks, std::span<float> out);

}  // namespace quant
