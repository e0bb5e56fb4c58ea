#pragma once

#include "quant/legacy/nibbles.h"

namespace quant {

// mxfp4: 32 values in 17 bytes (4.25 bits each). No alignment required. The OCP Microscaling format
// with ggml's order of the values.
//
//   bytes    field    meaning
//   0        e        E8M0: the scale is 2^(e - 127)
//   1-16     qs       F4_E2M1 values: value j is the low and value j + 16 the high half of byte j
//
// value[i] = 2^(e - 127) * E2M1(q[i]);  E2M1 of 0 ... 7 is 0, 0.5, 1, 1.5, 2, 3, 4, 6, and of 8 ...
// 15 the same with a minus; 8 is 0.
struct BlockMxfp4 {
  static constexpr size_t kValues = kGroup32;
  uint8_t e;
  uint8_t qs[16];
};
static_assert(sizeof(BlockMxfp4) == 17);

// Returns the exponent for a block whose largest magnitude is `largest`, which is then 4 to 8 times
// the scale (8 excluded).
uint8_t Mxfp4ExponentFor(float largest);

// Encoder and Decoder of format.h. The importance is not used.
void EncodeMxfp4(std::span<const float> values, std::span<const float> importance,
                 std::span<std::byte> out);
void EncodeMxfp4Ref(std::span<const float> values, std::span<const float> importance,
                    std::span<std::byte> out);
void DecodeMxfp4(std::span<const std::byte> blocks, std::span<float> out);
void DecodeMxfp4Ref(std::span<const std::byte> blocks, std::span<float> out);

}  // namespace quant
