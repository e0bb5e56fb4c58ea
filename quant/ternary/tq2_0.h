#pragma once

#include "quant/ternary/ternary.h"

namespace quant {

// tq2_0: 256 values in 66 bytes (2.0625 bits each). Little-endian, no alignment required.
//
//   bytes    field    meaning
//   0-63     qs       2-bit values; in each run of 128, byte l holds values l, l + 32, l + 64 and
//                     l + 96, the first in its lowest bits
//   64-65    d        F16
//
// value[i] = d * (q[i] - 1); the encoder never writes q = 3.
struct BlockTq20 {
  static constexpr size_t kValues = kSuperBlock;
  uint8_t qs[64];
  uint16_t d;
};
static_assert(sizeof(BlockTq20) == 66);

// Encoder and Decoder of format.h. The importance is not used.
void EncodeTq20(std::span<const float> values, std::span<const float> importance,
                std::span<std::byte> out);
void EncodeTq20Ref(std::span<const float> values, std::span<const float> importance,
                   std::span<std::byte> out);
void DecodeTq20(std::span<const std::byte> blocks, std::span<float> out);
void DecodeTq20Ref(std::span<const std::byte> blocks, std::span<float> out);

}  // namespace quant
