#pragma once

#include "quant/half.h"
#include "quant/search/scale32.h"

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

inline constexpr int kQ51Levels = 31;

inline BlockQ51 MakeQ51(ScaleAndMin fit, std::span<const uint8_t, kGroup32> q) {
  BlockQ51 block;
  block.d = ScaleToHalf(fit.scale);
  block.m = ScaleToHalf(fit.min);
  PackNibbles(q, block.qs);
  PackFifthBits(q, block.qh);
  return block;
}

// Encodes one block with the scalar reference.
BlockQ51 EncodeBlockQ51(const Block32& block);

// Encoder and Decoder of format.h. With importance the mean square of a row enters every weight.
void EncodeQ51(std::span<const float> values, std::span<const float> importance,
               std::span<std::byte> out);
void EncodeQ51Ref(std::span<const float> values, std::span<const float> importance,
                  std::span<std::byte> out);
void DecodeQ51(std::span<const std::byte> blocks, std::span<float> out);
void DecodeQ51Ref(std::span<const std::byte> blocks, std::span<float> out);

}  // namespace quant
