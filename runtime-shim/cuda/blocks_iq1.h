// Decoders of iq1_s and iq1_m (quant/ternary/): points of -1, 0 and 1, moved up or down by an
// eighth.
#pragma once

#include "runtime-shim/cuda/grid_points.h"

namespace moepack::runtime::cuda {

// Eight times the values, as integers: -7 1 9, or -9 -1 7 of a point that is moved down. They are
// too small compared to a base for subtracting it from the sums.
MOEPACK_DEVICE Group<8> Iq1Group(uint32_t point, bool down, float scale) {
  const uint32_t values = down ? 0x00170f07 : 0x00191109;  // plus 16
  Group<8> group;
  group.scale = scale * 0.125f;
  LiftBytes(BytesOfPairs(point, 0, values), group.q, 0);
  LiftBytes(BytesOfPairs(point, 4, values), group.q, 4);
  MOEPACK_UNROLL
  for (float& q : group.q) q -= kLift + 16;
  return group;
}

struct Iq1S : PartsOf32 {
  static constexpr uint32_t kBytes = 50, kAlign = 2;
  static constexpr float kBase = 0;
  struct Part {
    uint32_t numbers[1], upper, d;
  };

  MOEPACK_DEVICE static Part Load(const uint8_t* block, int part) {
    Part loaded;
    loaded.d = LoadShort(block);
    LoadWords<kAlign>(block + 2 + 4 * part, loaded.numbers);
    loaded.upper = LoadShort(block + 34 + 2 * part);
    return loaded;
  }
  MOEPACK_READS_POINTS static Group<8> Decode(const Part& part, int, int run) {
    const uint32_t number = (part.numbers[0] >> 8 * run & 0xff) | (part.upper >> 3 * run & 7) << 8;
    const auto level = static_cast<float>(2 * (part.upper >> 12 & 7) + 1);
    return Iq1Group(PointOf(kIq1Points, number), part.upper >> 15 != 0,
                    FloatOfHalf(part.d) * level);
  }
};

struct Iq1M : PartsOf32 {
  static constexpr uint32_t kBytes = 56, kAlign = 8;
  static constexpr float kBase = 0;
  struct Part {
    uint32_t numbers[1], upper, scales[2];
  };

  MOEPACK_DEVICE static Part Load(const uint8_t* block, int part) {
    Part loaded;
    LoadWords<4>(block + 4 * part, loaded.numbers);
    loaded.upper = LoadShort(block + 32 + 2 * part);
    LoadWords<kAlign>(block + 48, loaded.scales);
    return loaded;
  }
  MOEPACK_READS_POINTS static Group<8> Decode(const Part& part, int index, int run) {
    const uint32_t half_byte = part.upper >> 4 * run;
    const uint32_t number = (part.numbers[0] >> 8 * run & 0xff) | (half_byte & 7) << 8;
    // A part has half of a 16-bit word with four scales; d has four bits of each such word.
    const uint32_t word = (index < 4 ? part.scales[0] : part.scales[1]) >> 16 * (index / 2 % 2);
    const uint32_t level = word >> (6 * (index % 2) + 3 * (run / 2)) & 7;
    const uint32_t d = (part.scales[0] >> 12 & 0xf) | (part.scales[0] >> 24 & 0xf0) |
                       (part.scales[1] >> 4 & 0xf00) | (part.scales[1] >> 16 & 0xf000);
    return Iq1Group(PointOf(kIq1Points, number), (half_byte & 8) != 0,
                    FloatOfHalf(d) * static_cast<float>(2 * level + 1));
  }
};

}  // namespace moepack::runtime::cuda
