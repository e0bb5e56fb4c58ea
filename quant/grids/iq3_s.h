#pragma once

#include "quant/grids/grid_block.h"

namespace quant {

// iq3_s: 256 values in 110 bytes (3.4375 bits each). Little-endian, no alignment required.
//
//   bytes    field    meaning
//   0-1      d        F16
//   2-65     qs       low eight bits of the numbers of 64 points
//   66-73    qh       the ninth bits: that of point k is bit k % 8 of byte k / 8
//   74-105   signs    one byte for each eight values, bit i is value i, 1 is a minus
//   106-109  scales   4-bit scales s of 8 groups of 32, group j in the low (even j) or high half of
//                     byte j / 2
//
// value[i] = +-d * (2 * s + 1) * (2 * level i + 1).
struct BlockIq3S {
  static constexpr size_t kValues = kSuperBlock;
  uint16_t d;
  uint8_t qs[64];
  uint8_t qh[8];
  uint8_t signs[32];
  uint8_t scales[4];
};
static_assert(sizeof(BlockIq3S) == 110);

// Source: quantize_row_iq3_s_impl of ggml-quants.c.
inline constexpr GridRules kIq3SRules = {
    .group_values = 32,
    .even_signs = false,
    .spread = 2,
    .plain = PlainWeight::kSquare,
    .zero_limit = 0x1p-149f,  // only a group of zeros counts as zero
    .last = 9,
    .step = 0.2f,
    .positive_start = false,
    .refit = Refit::kAllIfAny,
    .factor = 1.033f,
};

// Puts the fields in their places.
BlockIq3S PackIq3S(const GridBlock& fit);

// Encoder and Decoder of format.h.
void EncodeIq3S(std::span<const float> values, std::span<const float> importance,
                std::span<std::byte> out);
void EncodeIq3SRef(std::span<const float> values, std::span<const float> importance,
                   std::span<std::byte> out);
void DecodeIq3S(std::span<const std::byte> blocks, std::span<float> out);
void DecodeIq3SRef(std::span<const std::byte> blocks, std::span<float> out);

}  // namespace quant
