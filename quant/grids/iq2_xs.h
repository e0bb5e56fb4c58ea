#pragma once

#include "quant/grids/grid_block.h"

namespace quant {

// iq2_xs: 256 values in 74 bytes (2.3125 bits each). Little-endian, no alignment required.
//
//   bytes    field    meaning
//   0-1      d        F16
//   2-65     qs       a word of 16 bits for each eight values: the number of a point in bits 0-8,
//                     seven signs in bits 9-15
//   66-73    scales   4-bit scales s of 16 groups of 16, group j in the low (even j) or high half
//                     of byte j / 2
//
// value[i] = +-d * (s + 1/2) / 4 * kIq2Values[level i]; signs as in iq2_xxs.
struct BlockIq2Xs {
  static constexpr size_t kValues = kSuperBlock;
  uint16_t d;
  uint16_t qs[32];
  uint8_t scales[8];
};
static_assert(sizeof(BlockIq2Xs) == 74);

// Source: quantize_row_iq2_xs_impl of ggml-quants.c.
inline constexpr GridRules kIq2XsRules = {
    .group_values = 16,
    .even_signs = true,
    .spread = 1,
    .plain = PlainWeight::kOnes,
    .zero_limit = 1e-15f,
    .last = 9,
    .step = 0.1f,
    .positive_start = false,
    .refit = Refit::kOffGrid,
    .factor = 1,
};

// Puts the fields in their places.
BlockIq2Xs PackIq2Xs(const GridBlock& fit);

// Encoder and Decoder of format.h. ggml refuses to encode this type without importance; here a
// missing importance counts as 1.
void EncodeIq2Xs(std::span<const float> values, std::span<const float> importance,
                 std::span<std::byte> out);
void EncodeIq2XsRef(std::span<const float> values, std::span<const float> importance,
                    std::span<std::byte> out);
void DecodeIq2Xs(std::span<const std::byte> blocks, std::span<float> out);
void DecodeIq2XsRef(std::span<const std::byte> blocks, std::span<float> out);

}  // namespace quant
