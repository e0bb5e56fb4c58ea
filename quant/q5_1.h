#pragma once

#include "quant/nibbles.h"

namespace quant {

// q5_1: 32 values in 24 bytes (6 bits each). Little-endian, no alignment required.
//
//   bytes    field    meaning
//   0-1      d        F16
//   2-3      m        F16
//   4-7      qh       fifth bits: that of value i is bit i of a 32-bit word
//   8-23     qs       low four bits: those of value j are the low, of j + 16 the high half of byte
//   j
//
// value[i] = d * q[i] + m.
struct BlockQ51 {
  static constexpr size_t kValues = kGroup32;
  uint16_t d, m;
  uint8_t qh[4];
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ51) == 24);

// Encoder and Decoder of format.h. With importance, `values` is exactly one row: its mean
// square enters every weight.
void EncodeQ51Ref(std::span<const float> values, std::span<const float> importance,
                  std::span<std::byte> out);
void DecodeQ51Ref(std::span<const std::byte> blocks, std::span<float> out);

}  // namespace quant
