#pragma once

#include "quant/legacy/nibbles.h"

namespace quant {

// iq4_nl: 32 values in 18 bytes (4.5 bits each). Little-endian, no alignment required.
//
//   bytes    field    meaning
//   0-1      d        F16
//   2-17     qs       4-bit codes: value j is the low and value j + 16 the high half of byte j
//
// value[i] = d * kIq4Codes[q[i]] (iq4.h).
struct BlockIq4Nl {
  static constexpr size_t kValues = kGroup32;
  uint16_t d;
  uint8_t qs[16];
};
static_assert(sizeof(BlockIq4Nl) == 18);

// Encoder and Decoder of format.h.
void EncodeIq4Nl(std::span<const float> values, std::span<const float> importance,
                 std::span<std::byte> out);
void EncodeIq4NlRef(std::span<const float> values, std::span<const float> importance,
                    std::span<std::byte> out);
void DecodeIq4Nl(std::span<const std::byte> blocks, std::span<float> out);
void DecodeIq4NlRef(std::span<const std::byte> blocks, std::span<float> out);

}  // namespace quant
