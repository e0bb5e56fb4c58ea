// Decoders of iq2_xxs, iq2_xs and iq2_s (quant/grids/).
#pragma once

#include "runtime-shim/cuda/grid_points.h"

namespace moepack::runtime::cuda {

// A point of levels that stand for 8, 25 and 43.
MOEPACK_DEVICE Group<8> Iq2Group(uint32_t point, uint32_t signs, float scale) {
  constexpr uint32_t kValuesOfLevels = 0x002b1908;
  Group<8> group;
  group.scale = scale;
  LiftBytes(SignedBytes(BytesOfPairs(point, 0, kValuesOfLevels), signs), group.q, 0);
  LiftBytes(SignedBytes(BytesOfPairs(point, 4, kValuesOfLevels), signs >> 4), group.q, 4);
  return group;
}

// Group g has the scale in half-byte g / 2.
MOEPACK_DEVICE float Iq2Scale(uint32_t d, uint32_t half_bytes, int group) {
  const uint32_t level = half_bytes >> group / 2 * 4 & 15;
  return FloatOfHalf(d) * (0.5f + static_cast<float>(level)) * 0.25f;
}

struct Iq2Xxs : PartsOf32 {
  static constexpr uint32_t kBytes = 66, kAlign = 2;
  static constexpr float kBase = kSignedBase;
  struct Part {
    uint32_t words[2], d;  // four numbers; signs and scale
  };

  MOEPACK_DEVICE static Part Load(const uint8_t* block, int part) {
    Part loaded;
    loaded.d = LoadShort(block);
    LoadWords<kAlign>(block + 2 + 8 * part, loaded.words);
    return loaded;
  }
  MOEPACK_READS_POINTS static Group<8> Decode(const Part& part, int, int run) {
    const uint32_t point = PointOf(kIq2XxsPoints, part.words[0] >> 8 * run & 0xff);
    const auto level = static_cast<float>(part.words[1] >> 28);
    return Iq2Group(point, EightSigns(part.words[1] >> 7 * run & 127),
                    FloatOfHalf(part.d) * (0.5f + level) * 0.25f);
  }
};

struct Iq2Xs : PartsOf32 {
  static constexpr uint32_t kBytes = 74, kAlign = 2;
  static constexpr float kBase = kSignedBase;
  struct Part {
    uint32_t q[2], scales, d;
  };

  MOEPACK_DEVICE static Part Load(const uint8_t* block, int part) {
    Part loaded;
    loaded.d = LoadShort(block);
    LoadWords<kAlign>(block + 2 + 8 * part, loaded.q);
    loaded.scales = LoadByte(block + 66 + part);
    return loaded;
  }
  MOEPACK_READS_POINTS static Group<8> Decode(const Part& part, int, int run) {
    const uint32_t bits = part.q[run / 2] >> 16 * (run % 2) & 0xffff;
    return Iq2Group(PointOf(kIq2XsPoints, bits & 511), EightSigns(bits >> 9),
                    Iq2Scale(part.d, part.scales, run));
  }
};

struct Iq2S : PartsOf32 {
  static constexpr uint32_t kBytes = 82, kAlign = 2;
  static constexpr float kBase = kSignedBase;
  struct Part {
    uint32_t numbers[1], signs[1], upper, scales, d;
  };

  MOEPACK_DEVICE static Part Load(const uint8_t* block, int part) {
    Part loaded;
    loaded.d = LoadShort(block);
    LoadWords<kAlign>(block + 2 + 4 * part, loaded.numbers);
    LoadWords<kAlign>(block + 34 + 4 * part, loaded.signs);
    loaded.upper = LoadByte(block + 66 + part);
    loaded.scales = LoadByte(block + 74 + part);
    return loaded;
  }
  MOEPACK_READS_POINTS static Group<8> Decode(const Part& part, int, int run) {
    const uint32_t number = (part.numbers[0] >> 8 * run & 0xff) | (part.upper >> 2 * run & 3) << 8;
    return Iq2Group(PointOf(kIq2SPoints, number), part.signs[0] >> 8 * run,
                    Iq2Scale(part.d, part.scales, run));
  }
};

}  // namespace moepack::runtime::cuda
