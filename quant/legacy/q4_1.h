#pragma once

#include "quant/half.h"
#include "quant/search/scale32.h"

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

inline constexpr int kQ41Levels = 15;

inline BlockQ41 MakeQ41(ScaleAndMin fit, std::span<const uint8_t, kGroup32> q) {
  BlockQ41 block;
  block.d = ScaleToHalf(fit.scale);
  block.m = ScaleToHalf(fit.min);
  PackNibbles(q, block.qs);
  return block;
}

// Encodes one block with the scalar reference.
BlockQ41 EncodeBlockQ41(const Block32& block);

// Encoder and Decoder of format.h. With importance the mean square of a row enters every weight.
void EncodeQ41(std::span<const float> values, std::span<const float> importance,
               std::span<std::byte> out);
void EncodeQ41Ref(std::span<const float> values, std::span<const float> importance,
                  std::span<std::byte> out);
void DecodeQ41(std::span<const std::byte> blocks, std::span<float> out);
void DecodeQ41Ref(std::span<const std::byte> blocks, std::span<float> out);

}  // namespace quant
