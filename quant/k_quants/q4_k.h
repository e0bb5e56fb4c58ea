#pragma once

#include "quant/search/k_pairs.h"

namespace quant {

// q4_K: 256 values in 144 bytes (4.5 bits each). Little-endian, no alignment required.
//
//   bytes    field    meaning
//   0-15     pairs    scales and minimums of the eight groups of 32 (k_pairs.h)
//   16-143   qs       4-bit values; in each run of 64, value l is the low and value l + 32 the high
//                     half of byte l
//
// value[i] = d * scale[g] * q[i] - dmin * min[g],  g = i / 32.
struct BlockQ4K {
  static constexpr size_t kValues = kSuperBlock;
  ScalePairs pairs;
  uint8_t qs[128];
};
static_assert(sizeof(BlockQ4K) == 144);

inline constexpr size_t kQ4KDistance = 32;  // between the two values in a byte of qs

inline constexpr PairSearch kQ4KSearch = {
    .plain = {.levels = 15, .first = -1.0f, .step = 0.1f, .last = 20},
    .with_importance = {.levels = 15, .first = -0.9f, .step = 0.05f, .last = 36},
    .cap_searched = false,
};

BlockQ4K MakeBlockQ4K(const ScalePairs& pairs, const Levels& q);

// Encoder and Decoder of format.h.
void EncodeQ4K(std::span<const float> values, std::span<const float> importance,
               std::span<std::byte> out);
void EncodeQ4KRef(std::span<const float> values, std::span<const float> importance,
                  std::span<std::byte> out);
void DecodeQ4K(std::span<const std::byte> blocks, std::span<float> out);
void DecodeQ4KRef(std::span<const std::byte> blocks, std::span<float> out);

}  // namespace quant
