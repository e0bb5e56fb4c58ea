#pragma once

#include "quant/ternary/iq1.h"

namespace quant {

// iq1_s: 256 values in 50 bytes (1.5625 bits each). Little-endian, no alignment required.
//
//   bytes    field    meaning
//   0-1      d        F16
//   2-33     qs       low eight bits of the numbers of 32 points, of eight values each
//   34-49    qh       a word of 16 bits for each group of 32 values: bits 0-11 the upper three bits
//                     of its four numbers, the first lowest; bits 12-14 the scale s; bit 15: the
//                     group is moved down
//
// value[i] = d * (2 s + 1) * (level + 1/8 or - 1/8), the level -1, 0 or 1 as the point has it.
struct BlockIq1S {
  static constexpr size_t kValues = kSuperBlock;
  static constexpr size_t kGroups = 8;
  static constexpr size_t kGroupValues = kValues / kGroups;
  uint16_t d;
  uint8_t qs[32];
  uint16_t qh[kGroups];

  size_t Number(size_t run) const {  // of the point of a run of eight values
    return qs[run] | (qh[run / 4] >> run % 4 * 3 & 7u) << 8;
  }
  bool Down(size_t group) const { return qh[group] >> 15 != 0; }
  // 2 s + 1.
  float Scale(size_t group) const { return static_cast<float>(2 * (qh[group] >> 12 & 7) + 1); }
};
static_assert(sizeof(BlockIq1S) == 50);

inline constexpr float kIq1SZeroGroup = 1e-12f;  // groups whose largest magnitude is below are zero

// Puts the groups in their places.
BlockIq1S PackIq1S(const std::array<Iq1Group, BlockIq1S::kGroups>& groups);

// Encoder and Decoder of format.h. ggml refuses to encode this type without importance; here a
// missing importance counts as 1.
void EncodeIq1S(std::span<const float> values, std::span<const float> importance,
                std::span<std::byte> out);
void EncodeIq1SRef(std::span<const float> values, std::span<const float> importance,
                   std::span<std::byte> out);
void DecodeIq1S(std::span<const std::byte> blocks, std::span<float> out);
void DecodeIq1SRef(std::span<const std::byte> blocks, std::span<float> out);

}  // namespace quant
