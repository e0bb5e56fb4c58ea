#pragma once

#include "quant/half.h"
#include "quant/search/scale32.h"

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

inline constexpr int kQ50Levels = 16;

inline BlockQ50 MakeQ50(float scale, std::span<const uint8_t, kGroup32> q) {
  BlockQ50 block;
  block.d = ScaleToHalf(scale);
  PackNibbles(q, block.qs);
  PackFifthBits(q, block.qh);
  return block;
}

// Encodes one block with the scalar reference.
BlockQ50 EncodeBlockQ50(const Block32& block);

// Encoder and Decoder of format.h. With importance the mean square of a row enters every weight.
void EncodeQ50(std::span<const float> values, std::span<const float> importance,
               std::span<std::byte> out);
void EncodeQ50Ref(std::span<const float> values, std::span<const float> importance,
                  std::span<std::byte> out);
void DecodeQ50(std::span<const std::byte> blocks, std::span<float> out);
void DecodeQ50Ref(std::span<const std::byte> blocks, std::span<float> out);

}  // namespace quant
