#pragma once

#include <array>

#include "quant/half.h"
#include "quant/k_quants/k_bits.h"
#include "quant/search/k_search.h"

namespace quant {

// q3_K: 256 values in 110 bytes (3.4375 bits each). Little-endian, no alignment required.
//
//   bytes     field    meaning
//   0-31      hmask    third bits: that of value i is bit i / 32 of byte i % 32
//   32-95     qs       low two bits; in each run of 128, byte l holds values l, l + 32, l + 64 and
//                      l + 96, the first in its lowest bits
//   96-107    packed   sixteen 6-bit scales s: the low four bits of scale j are in the low (j < 8)
//                      or high half of byte j % 8, its upper two in bits 2 * (j / 4) of byte
//                      8 + j % 4
//   108-109   d        F16
//
// value[i] = d * (s[g] - 32) * (q[i] - 4),  g = i / 16.
struct BlockQ3K {
  static constexpr size_t kValues = kSuperBlock;
  static constexpr size_t kGroups = 16;
  uint8_t hmask[32];
  uint8_t qs[64];
  uint8_t packed[12];
  uint16_t d;

  // d * (s - 32).
  float GroupScale(size_t group) const;
};
static_assert(sizeof(BlockQ3K) == 110);

inline constexpr int kQ3KLevels = 4;        // values: -4 ... 3
inline constexpr int kQ3KScaleLevels = 32;  // scales: -32 ... 31

inline float BlockQ3K::GroupScale(size_t group) const {
  const int low = group < 8 ? packed[group] & 15 : packed[group - 8] >> 4;
  const int high = packed[8 + group % 4] >> group / 4 * 2 & 3;
  return HalfToFloat(d) * static_cast<float>((low | high << 4) - kQ3KScaleLevels);
}

using FloatsQ3K = std::array<float, BlockQ3K::kGroups>;
using LevelsQ3K = std::array<uint8_t, BlockQ3K::kGroups>;

// Sets `d` and `packed`.
void SetScalesQ3K(float d, const LevelsQ3K& levels, BlockQ3K& block);

inline void PackQ3K(const Levels& q, BlockQ3K& block) {
  PackTwoBits(q, 0, block.qs);
  PackOneBit(q, 2, block.hmask);
}

// Encoder and Decoder of format.h.
void EncodeQ3K(std::span<const float> values, std::span<const float> importance,
               std::span<std::byte> out);
void EncodeQ3KRef(std::span<const float> values, std::span<const float> importance,
                  std::span<std::byte> out);
void DecodeQ3K(std::span<const std::byte> blocks, std::span<float> out);
void DecodeQ3KRef(std::span<const std::byte> blocks, std::span<float> out);

}  // namespace quant
