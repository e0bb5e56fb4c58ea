#pragma once

#include "quant/nibbles.h"

namespace quant {

// q5_0: 32 values in 22 bytes (5.5 bits each). Little-endian, no alignment required.
//
//   bytes    field    meaning
//   0-1      d        F16
//   2-5      qh       fifth bits: that of value i is bit i of a 32-bit word
//   6-21     qs       low four bits: those of value j are the low, of j + 16 the high half of byte
//   j
//
// value[i] = d * (q[i] - 16).
struct BlockQ50 {
  static constexpr size_t kValues = kGroup32;
  uint16_t d;
  uint8_t qh[4];
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ50) == 22);

// Encoder and Decoder of format.h. With importance, `values` is exactly one row: its mean
// square enters every weight.
void EncodeQ50Ref(std::span<const float> values, std::span<const float> importance,
                  std::span<std::byte> out);
void DecodeQ50Ref(std::span<const std::byte> blocks, std::span<float> out);

}  // namespace quant
