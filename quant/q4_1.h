#pragma once

#include "quant/nibbles.h"

namespace quant {

// q4_1: 32 values in 20 bytes (5 bits each). Little-endian, no alignment required.
//
//   bytes    field    meaning
//   0-1      d        F16
//   2-3      m        F16
//   4-19     qs       4-bit values: value j is the low and value j + 16 the high half of byte j
//
// value[i] = d * q[i] + m.
struct BlockQ41 {
  static constexpr size_t kValues = kGroup32;
  uint16_t d, m;
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ41) == 20);

// Encoder and Decoder of format.h. With importance, `values` is exactly one row: its mean
// square enters every weight.
void EncodeQ41Ref(std::span<const float> values, std::span<const float> importance,
                  std::span<std::byte> out);
void DecodeQ41Ref(std::span<const std::byte> blocks, std::span<float> out);

}  // namespace quant
