#pragma once

#include "quant/half.h"
#include "quant/search/scale32.h"

namespace quant {

// q4_0: 32 values in 18 bytes (4.5 bits each). Little-endian, no alignment required.
//
//   bytes    field    meaning
//   0-1      d        F16
//   2-17     qs       4-bit values: value j is the low and value j + 16 the high half of byte j
//
// value[i] = d * (q[i] - 8).
struct BlockQ40 {
  static constexpr size_t kValues = kGroup32;
  uint16_t d;
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ40) == 18);

inline constexpr int kQ40Levels = 8;

inline BlockQ40 MakeQ40(float scale, std::span<const uint8_t, kGroup32> q) {
  BlockQ40 block;
  block.d = ScaleToHalf(scale);
  PackNibbles(q, block.qs);
  return block;
}

// Encodes one block with the scalar reference.
BlockQ40 EncodeBlockQ40(const Block32& block);

// Encoder and Decoder of format.h. With importance the mean square of a row enters every weight.
void EncodeQ40(std::span<const float> values, std::span<const float> importance,
               std::span<std::byte> out);
void EncodeQ40Ref(std::span<const float> values, std::span<const float> importance,
                  std::span<std::byte> out);
void DecodeQ40(std::span<const std::byte> blocks, std::span<float> out);
void DecodeQ40Ref(std::span<const std::byte> blocks, std::span<float> out);

}  // namespace quant
