#pragma once

#include "quant/legacy/nibbles.h"

namespace quant {

// q8_0: 32 values in 34 bytes (8.5 bits each). Little-endian, no alignment required.
//
//   bytes    field    meaning
//   0-1      d        F16
//   2-33     qs       signed bytes
//
// value[i] = d * qs[i].
struct BlockQ80 {
  static constexpr size_t kValues = kGroup32;
  uint16_t d;
  int8_t qs[32];
};
static_assert(sizeof(BlockQ80) == 34);

// Encoder and Decoder of format.h. The importance is not used.
void EncodeQ80(std::span<const float> values, std::span<const float> importance,
               std::span<std::byte> out);
void EncodeQ80Ref(std::span<const float> values, std::span<const float> importance,
                  std::span<std::byte> out);
void DecodeQ80(std::span<const std::byte> blocks, std::span<float> out);
void DecodeQ80Ref(std::span<const std::byte> blocks, std::span<float> out);

}  // namespace quant
