// Decoders of q2_K and q3_K: 256 values per block, four parts with 64 values each. Part p has 16
// bytes of the run of 128 values p / 2; its four groups, 32 values apart, are the pairs of bits of
// those bytes.
#pragma once

#include "runtime-shim/cuda/blocks.h"

namespace moepack::runtime::cuda {

// Index in the block of the first value of a group, and of the group's scale: group j of the block
// are values 16j ... 16j + 15.
MOEPACK_DEVICE int FirstOfPairs(int part, int group) {
  return part / 2 * 128 + part % 2 * 16 + 32 * group;
}

struct Q2K {
  static constexpr int kValues = 256, kParts = 4, kGroups = 4, kGroupValues = 16;
  static constexpr uint32_t kBytes = 84, kAlign = 4;
  static constexpr bool kScaled = true, kOffset = true;
  static constexpr float kBase = 0;
  struct Part {
    uint32_t q[4], scales[2], d[1];  // scales: of the run; d: and dmin above it
  };

  MOEPACK_DEVICE static Part Load(const uint8_t* block, int part) {
    Part loaded;
    LoadWords<kAlign>(block + part / 2 * 8, loaded.scales);
    LoadWords<kAlign>(block + 16 + 16 * part, loaded.q);
    LoadWords<kAlign>(block + 80, loaded.d);
    return loaded;
  }
  MOEPACK_DEVICE static int First(int part, int group) { return FirstOfPairs(part, group); }
  MOEPACK_DEVICE static Group<16> Decode(const Part& part, int index, int pair) {
    Group<16> group;
    const uint32_t byte = part.scales[pair / 2] >> 8 * (pair % 2 * 2 + index % 2) & 0xff;
    group.scale = FloatOfHalf(part.d[0] & 0xffff) * static_cast<float>(byte & 15);
    group.offset = -(FloatOfHalf(part.d[0] >> 16) * static_cast<float>(byte >> 4));
    MOEPACK_UNROLL
    for (int i = 0; i < 4; ++i) LiftBytes(part.q[i] >> 2 * pair & 0x03030303, group.q, 4 * i);
    // Compared to 0 ... 3 the base is so large that subtracting it from the sums would cost five
    // bits of precision.
    MOEPACK_UNROLL
    for (float& q : group.q) q -= kLift;
    return group;
  }
};

struct Q3K {
  static constexpr int kValues = 256, kParts = 4, kGroups = 4, kGroupValues = 16;
  static constexpr uint32_t kBytes = 110, kAlign = 2;
  static constexpr bool kScaled = true, kOffset = false;
  static constexpr float kBase = kLift + 4;
  struct Part {
    uint32_t q[4], third[4], packed[3], d;
  };

  MOEPACK_DEVICE static Part Load(const uint8_t* block, int part) {
    Part loaded;
    LoadWords<kAlign>(block + 16 * (part % 2), loaded.third);
    LoadWords<kAlign>(block + 32 + 16 * part, loaded.q);
    LoadWords<kAlign>(block + 96, loaded.packed);
    loaded.d = LoadShort(block + 108);
    return loaded;
  }
  MOEPACK_DEVICE static int First(int part, int group) { return FirstOfPairs(part, group); }
  // Scale j = 8 * run + 2 * pair + index % 2: its low bits are in half-byte `run` of byte j % 8,
  // its upper two in bits 2 * (j / 4) of byte 8 + j % 4.
  MOEPACK_DEVICE static Group<16> Decode(const Part& part, int index, int pair) {
    Group<16> group;
    const int run = index / 2, byte = 8 * (pair % 2 * 2 + index % 2);
    const uint32_t low = part.packed[pair / 2] >> (byte + 4 * run) & 15;
    const uint32_t high = part.packed[2] >> (byte + 4 * run + pair / 2 * 2) & 3;
    group.scale = FloatOfHalf(part.d) * static_cast<float>(static_cast<int>(low | high << 4) - 32);
    MOEPACK_UNROLL
    for (int i = 0; i < 4; ++i) {
      const uint32_t third = part.third[i] >> 4 * run;
      const uint32_t in_place = pair < 2 ? third << (2 - pair) : third >> (pair - 2);
      LiftBytes((part.q[i] >> 2 * pair & 0x03030303) | (in_place & 0x04040404), group.q, 4 * i);
    }
    return group;
  }
};

}  // namespace moepack::runtime::cuda
