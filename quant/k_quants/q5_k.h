#pragma once

#include "quant/search/k_pairs.h"

namespace quant {

// q5_K: 256 values in 176 bytes (5.5 bits each). Little-endian, no alignment required.
//
//   bytes    field    meaning
//   0-15     pairs    scales and minimums of the eight groups of 32 (k_pairs.h)
//   16-47    qh       fifth bits: that of value i is bit i / 32 of byte i % 32
//   48-175   qs       low four bits; in each run of 64, value l is the low and value l + 32 the
//                     high half of byte l
//
// value[i] = d * scale[g] * q[i] - dmin * min[g],  g = i / 32.
struct BlockQ5K {
  static constexpr size_t kValues = kSuperBlock;
  ScalePairs pairs;
  uint8_t qh[32];
  uint8_t qs[128];
};
static_assert(sizeof(BlockQ5K) == 176);

inline constexpr size_t kQ5KDistance = 32;  // between the two values in a byte of qs

inline constexpr PairSearch kQ5KSearch = {
    .plain = {.levels = 31, .first = -0.5f, .step = 0.1f, .last = 15},
    .with_importance = {.levels = 31, .first = -0.9f, .step = 0.05f, .last = 36},
    .cap_searched = true,
};
BlockQ5K MakeBlockQ5K(const ScalePairs& pairs, const Levels& q);

// Encoder and Decoder of format.h.
void EncodeQ5K(std::span<const float> values, std::span<const float> importance,
               std::span<std::byte> out);
void EncodeQ5KRef(std::span<const float> values, std::span<const float> importance,
                  std::span<std::byte> out);
void DecodeQ5K(std::span<const std::byte> blocks, std::span<float> out);
void DecodeQ5KRef(std::span<const std::byte> blocks, std::span<float> out);

}  // namespace quant
