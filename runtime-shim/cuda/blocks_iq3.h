// Decoders of iq3_xxs and iq3_s (quant/grids/).
#pragma once

#include "runtime-shim/cuda/grid_points.h"

namespace moepack::runtime::cuda {

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
