#pragma once

#include "quant/grids/grid_block.h"

namespace quant {

// iq2_xxs: 256 values in 66 bytes (2.0625 bits each). Little-endian, no alignment required.
//
//   bytes    field    meaning
//   0-1      d        F16
//   2-65     qs       eight bytes per group of 32: the numbers of four points, a byte each; then a
//                     word of the signs of four times eight values, seven bits each, and the
//                     group's scale s in bits 28-31
//
// value[i] = +-d * (s + 1/2) / 4 * kIq2Values[level i] for the levels of the points (points.h). A
// sign bit of 1 is a minus. An even number of the eight values has one, which gives the eighth bit.
struct BlockIq2Xxs {
  static constexpr size_t kValues = kSuperBlock;
  uint16_t d;
  uint8_t qs[64];
};
static_assert(sizeof(BlockIq2Xxs) == 66);

// Source: quantize_row_iq2_xxs_impl of ggml-quants.c.
inline constexpr GridRules kIq2XxsRules = {
    .group_values = 32,
    .even_signs = true,
    .spread = 1,
    .plain = PlainWeight::kOnes,
    .zero_limit = 1e-15f,
    .last = 6,
    .step = 0.1f,
    .positive_start = true,
    .refit = Refit::kAlways,
    .factor = 1,
};

// Puts the fields in their places.
BlockIq2Xxs PackIq2Xxs(const GridBlock& fit);

// Encoder and Decoder of format.h. ggml refuses to encode this type without importance; here a
// missing importance counts as 1.
void EncodeIq2Xxs(std::span<const float> values, std::span<const float> importance,
                  std::span<std::byte> out);
void EncodeIq2XxsRef(std::span<const float> values, std::span<const float> importance,
                     std::span<std::byte> out);
void DecodeIq2Xxs(std::span<const std::byte> blocks, std::span<float> out);
void DecodeIq2XxsRef(std::span<const std::byte> blocks, std::span<float> out);

}  // namespace quant
