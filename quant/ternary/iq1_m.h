#pragma once

#include "quant/ternary/iq1.h"

namespace quant {

// iq1_m: 256 values in 56 bytes (1.75 bits each). Little-endian, no alignment required.
//
//   bytes    field    meaning
//   0-31     qs       low eight bits of the numbers of 32 points, of eight values each
//   32-47    qh       half a byte for each point, the first of two in the low half: bits 0-2 the
//                     upper bits of its number, bit 3: the eight values are moved down
//   48-55    scales   four words of 16 bits: bits 0-11 of word k are the 3-bit scales s of the
//                     groups 4 k ... 4 k + 3, of 16 values each; bits 12-15 are four bits of d, an
//                     F16, the lowest in the first word
//
// value[i] = d * (2 s + 1) * (level + 1/8 or - 1/8), the level -1, 0 or 1 as the point has it.
struct BlockIq1M {
  static constexpr size_t kValues = kSuperBlock;
  static constexpr size_t kGroups = 16;
  static constexpr size_t kGroupValues = kValues / kGroups;
  uint8_t qs[32];
  uint8_t qh[16];
  uint16_t scales[4];

  uint16_t d() const {
    return static_cast<uint16_t>(scales[0] >> 12 | scales[1] >> 12 << 4 | scales[2] >> 12 << 8 |
                                 scales[3] >> 12 << 12);
  }
  size_t Number(size_t run) const {  // of the point of a run of eight values
    return qs[run] | (qh[run / 2] >> run % 2 * 4 & 7u) << 8;
  }
  bool Down(size_t run) const { return (qh[run / 2] >> run % 2 * 4 & 8) != 0; }
  // 2 s + 1.
  float Scale(size_t group) const {
    return static_cast<float>(2 * (scales[group / 4] >> group % 4 * 3 & 7) + 1);
  }
};
static_assert(sizeof(BlockIq1M) == 56);

inline constexpr float kIq1MZeroGroup = 1e-7f;  // groups whose largest magnitude is below are zero

// The order in which ggml tries the shifts of the two runs of a group.
inline constexpr std::array<Iq1Shifts, 4> kIq1MShifts = {0b00, 0b10, 0b01, 0b11};

// Puts the groups in their places and rounds their scales. Returns d before it is fitted to them.
// Returns 0 if no group has a scale: d and the shifts then stay 0.
float PlaceIq1M(const std::array<Iq1Group, BlockIq1M::kGroups>& groups, BlockIq1M& block);
// Sets d to the fitted value.
void SetIq1MScale(float d, BlockIq1M& block);

// Encoder and Decoder of format.h. Without importance the weight of a value is its square.
void EncodeIq1M(std::span<const float> values, std::span<const float> importance,
                std::span<std::byte> out);
void EncodeIq1MRef(std::span<const float> values, std::span<const float> importance,
                   std::span<std::byte> out);
void DecodeIq1M(std::span<const std::byte> blocks, std::span<float> out);
void DecodeIq1MRef(std::span<const std::byte> blocks, std::span<float> out);

}  // namespace quant
