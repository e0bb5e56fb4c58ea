#pragma once

#include <array>

#include "quant/k_quants/k_bits.h"

namespace quant {

// iq4_xs: 256 values in 136 bytes (4.25 bits each). Little-endian, no alignment required.
//
//   bytes    field      meaning
//   0-1      d          F16
//   2-3      scales_h   upper two bits of the eight scales s, those of scale j in bits 2j, 2j + 1
//   4-7      scales_l   their low four bits, scale j in the low (even j) or high half of byte j / 2
//   8-135    qs         4-bit codes; in each run of 32, value l is the low and value l + 16 the
//                       high half of byte l
//
// value[i] = d * (s[g] - 32) * kIq4Codes[q[i]] (iq4.h),  g = i / 32.
struct BlockIq4Xs {
  static constexpr size_t kValues = kSuperBlock;
  static constexpr size_t kGroups = 8;
  uint16_t d;
  uint16_t scales_h;
  uint8_t scales_l[4];
  uint8_t qs[128];

  // d * (s - 32).
  float GroupScale(size_t group) const;
};
static_assert(sizeof(BlockIq4Xs) == 136);

inline constexpr int kIq4XsScaleLevels = 32;  // scales: -32 ... 31
inline constexpr size_t kIq4XsDistance = 16;  // between the two values in a byte

using FloatsIq4Xs = std::array<float, BlockIq4Xs::kGroups>;

// Sets d and the levels of the group scales in an empty block. The scale of largest magnitude gets
// -32. Returns the factor that turns the values of each group into codes; it is computed from d
// before d is rounded to F16, as in ggml.
FloatsIq4Xs RoundScalesIq4Xs(const FloatsIq4Xs& scales, BlockIq4Xs& block);

// Encoder and Decoder of format.h.
void EncodeIq4Xs(std::span<const float> values, std::span<const float> importance,
                 std::span<std::byte> out);
void EncodeIq4XsRef(std::span<const float> values, std::span<const float> importance,
                    std::span<std::byte> out);
void DecodeIq4Xs(std::span<const std::byte> blocks, std::span<float> out);
void DecodeIq4XsRef(std::span<const std::byte> blocks, std::span<float> out);

}  // namespace quant
