// Blocks of the types whose values are points of a grid: iq1, iq2 and iq3.
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

// Decoders of iq2_xxs, iq2_xs and iq2_s (quant/grids/).

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

// Decoders of iq3_xxs and iq3_s (quant/grids/).

// Two points of four levels each, which stand for the bytes of `lower` and `upper`.
struct Iq3Points {
  uint32_t first, second;
};
MOEPACK_DEVICE Group<8> Iq3Group(const Iq3Points& points, uint32_t lower, uint32_t upper,
                                 uint32_t signs, float scale) {
  Group<8> group;
  group.scale = scale;
  LiftBytes(SignedBytes(BytesOfTriples(points.first, lower, upper), signs), group.q, 0);
  LiftBytes(SignedBytes(BytesOfTriples(points.second, lower, upper), signs >> 4), group.q, 4);
  return group;
}

struct Iq3Xxs : PartsOf32 {
  static constexpr uint32_t kBytes = 98, kAlign = 2;
  static constexpr float kBase = kSignedBase;
  struct Part {
    uint32_t numbers[2], word[1], d;  // word: signs and scale
  };

  MOEPACK_DEVICE static Part Load(const uint8_t* block, int part) {
    Part loaded;
    loaded.d = LoadShort(block);
    LoadWords<kAlign>(block + 2 + 8 * part, loaded.numbers);
    LoadWords<kAlign>(block + 66 + 4 * part, loaded.word);
    return loaded;
  }
  // The levels stand for 4, 12, 20, ... 52, and 62.
  MOEPACK_READS_POINTS static Group<8> Decode(const Part& part, int, int run) {
    const uint32_t numbers = part.numbers[run / 2] >> 16 * (run % 2);
    const Iq3Points points = {PointOf(kIq3XxsPoints, numbers & 0xff),
                              PointOf(kIq3XxsPoints, numbers >> 8 & 0xff)};
    const auto level = static_cast<float>(part.word[0] >> 28);
    return Iq3Group(points, 0x1c140c04, 0x3e342c24, EightSigns(part.word[0] >> 7 * run & 127),
                    FloatOfHalf(part.d) * (0.5f + level) * 0.5f);
  }
};

struct Iq3S : PartsOf32 {
  static constexpr uint32_t kBytes = 110, kAlign = 2;
  static constexpr float kBase = kSignedBase;
  struct Part {
    uint32_t numbers[2], signs[1], ninth, scales, d;
  };

  MOEPACK_DEVICE static Part Load(const uint8_t* block, int part) {
    Part loaded;
    loaded.d = LoadShort(block);
    LoadWords<kAlign>(block + 2 + 8 * part, loaded.numbers);
    loaded.ninth = LoadByte(block + 66 + part);
    LoadWords<kAlign>(block + 74 + 4 * part, loaded.signs);
    loaded.scales = LoadByte(block + 106 + part / 2);
    return loaded;
  }
  // The levels stand for 1, 3, 5, ... 15.
  MOEPACK_READS_POINTS static Group<8> Decode(const Part& part, int index, int run) {
    const uint32_t numbers = part.numbers[run / 2] >> 16 * (run % 2);
    const uint32_t ninth = part.ninth >> 2 * run;
    const Iq3Points points = {PointOf(kIq3SPoints, (numbers & 0xff) | (ninth & 1) << 8),
                              PointOf(kIq3SPoints, (numbers >> 8 & 0xff) | (ninth & 2) << 7)};
    const uint32_t level = part.scales >> index % 2 * 4 & 15;
    return Iq3Group(points, 0x07050301, 0x0f0d0b09, part.signs[0] >> 8 * run,
                    FloatOfHalf(part.d) * static_cast<float>(1 + 2 * level));
  }
};

}  // namespace moepack::runtime::cuda
