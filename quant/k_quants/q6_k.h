#pragma once

#include <array>

#include "quant/half.h"
#include "quant/k_quants/k_bits.h"
#include "quant/search/k_search.h"

namespace quant {

// q6_K: 256 values in 210 bytes (6.5625 bits each). Little-endian, no alignment required.
//
//   bytes     field    meaning
//   0-127     ql       low four bits; in each run of 128, value l is the low and value l + 64 the
//                      high half of byte l
//   128-191   qh       upper two bits; in each run of 128, byte l holds those of values l, l + 32,
//                      l + 64 and l + 96, the first in its lowest bits
//   192-207   scales   signed bytes, one for each group of 16
//   208-209   d        F16
//
// value[i] = d * scale[g] * (q[i] - 32),  g = i / 16.
struct BlockQ6K {
  static constexpr size_t kValues = kSuperBlock;
  static constexpr size_t kGroups = 16;
  uint8_t ql[128];
  uint8_t qh[64];
  int8_t scales[kGroups];
  uint16_t d;

  // d * scale.
  float GroupScale(size_t group) const;
};
static_assert(sizeof(BlockQ6K) == 210);

inline constexpr size_t kQ6KDistance = 64;  // between the two values in a byte of ql
inline constexpr int kQ6KLevels = 32;       // values: -32 ... 31

inline float BlockQ6K::GroupScale(size_t group) const {
  return HalfToFloat(d) * static_cast<float>(scales[group]);
}

using FloatsQ6K = std::array<float, BlockQ6K::kGroups>;

// Sets d, and the group scales rounded to eight bits so that the one of largest magnitude gets
// -128. If all scales are zero, returns false and sets nothing; all bytes of the block are then
// zero.
bool RoundScalesQ6K(const FloatsQ6K& scales, BlockQ6K& block);

inline void PackQ6K(const Levels& q, BlockQ6K& block) {
  PackFourBits(q, kQ6KDistance, block.ql);
  PackTwoBits(q, 4, block.qh);
}

// Encoder and Decoder of format.h.
void EncodeQ6K(std::span<const float> values, std::span<const float> importance,
               std::span<std::byte> out);
void EncodeQ6KRef(std::span<const float> values, std::span<const float> importance,
                  std::span<std::byte> out);
void DecodeQ6K(std::span<const std::byte> blocks, std::span<float> out);
void DecodeQ6KRef(std::span<const std::byte> blocks, std::span<float> out);

}  // namespace quant
