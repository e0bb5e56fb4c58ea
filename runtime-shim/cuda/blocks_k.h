// Decoders of q4_K, q5_K, q6_K and iq4_xs: 256 values per block, eight parts of 16 bytes of
// half-bytes with 32 values each.
#pragma once

#include "runtime-shim/cuda/blocks.h"

namespace moepack::runtime::cuda {

// Decoders of q2_K and q3_K: 256 values per block, four parts with 64 values each. Part p has 16
// bytes of the run of 128 values p / 2; its four groups, 32 values apart, are the pairs of bits of
// those bytes.

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

struct ScaleAndOffset {
  float scale, offset;
};

// The scale of group 0 ... 7 and its minimum, negated (quant/search/k_pairs.h). `pairs` are the
// first 16 bytes of a block.
MOEPACK_DEVICE ScaleAndOffset PairOf(const uint32_t (&pairs)[4], int group) {
  const int shift = 8 * (group & 3);
  const uint32_t a = pairs[1] >> shift, b = pairs[2] >> shift, c = pairs[3] >> shift;
  const uint32_t scale = group < 4 ? a & 63 : (c & 15) | (a >> 2 & 48);
  const uint32_t min = group < 4 ? b & 63 : (c >> 4 & 15) | (b >> 2 & 48);
  return {FloatOfHalf(pairs[0] & 0xffff) * static_cast<float>(scale),
          -(FloatOfHalf(pairs[0] >> 16) * static_cast<float>(min))};
}

// q4_K and q5_K. Part p: bytes 16 * (p % 2) ... of the run of 64 values p / 2; its first group is
// the low halves, its second, 32 values further on, the high halves.
template <bool kWithFifth>
struct Pairs256 {
  static constexpr int kValues = 256, kParts = 8, kGroups = 2, kGroupValues = 16;
  static constexpr uint32_t kNibblesAt = kWithFifth ? 48 : 16;
  static constexpr uint32_t kBytes = kNibblesAt + 128, kAlign = 16;
  static constexpr bool kScaled = true, kOffset = true;
  static constexpr float kBase = kLift;
  struct Part {
    uint32_t pairs[4], fifth[4], q[4];
  };

  MOEPACK_DEVICE static Part Load(const uint8_t* block, int part) {
    Part loaded{};
    LoadWords<kAlign>(block, loaded.pairs);
    if constexpr (kWithFifth) LoadWords<kAlign>(block + 16 + 16 * (part % 2), loaded.fifth);
    LoadWords<kAlign>(block + kNibblesAt + 16 * part, loaded.q);
    return loaded;
  }
  MOEPACK_DEVICE static int First(int part, int group) {
    return part / 2 * 64 + part % 2 * 16 + 32 * group;
  }
  MOEPACK_DEVICE static Group<16> Decode(const Part& part, int index, int half) {
    Group<16> group;
    const int of_run = index / 2 * 2;
    const ScaleAndOffset pair = PairOf(part.pairs, of_run + half);
    group.scale = pair.scale;
    group.offset = pair.offset;
    MOEPACK_UNROLL
    for (int i = 0; i < 4; ++i) {
      uint32_t q = part.q[i] >> 4 * half & 0x0f0f0f0f;
      if constexpr (kWithFifth) q |= part.fifth[i] >> of_run << (4 - half) & 0x10101010;
      LiftBytes(q, group.q, 4 * i);
    }
    return group;
  }
};
using Q4K = Pairs256<false>;
using Q5K = Pairs256<true>;

// Part p: bytes 16 * (p % 4) ... of the run of 128 values p / 4; its first group is the low halves,
// its second, 64 values further on, the high halves.
struct Q6K {
  static constexpr int kValues = 256, kParts = 8, kGroups = 2, kGroupValues = 16;
  static constexpr uint32_t kBytes = 210, kAlign = 2;
  static constexpr bool kScaled = true, kOffset = false;
  static constexpr float kBase = kLift + 32;
  struct Part {
    uint32_t q[4], upper[4], scales[2], d;
  };

  MOEPACK_DEVICE static Part Load(const uint8_t* block, int part) {
    Part loaded;
    const int run = part / 4, in_run = part % 4;
    LoadWords<kAlign>(block + 16 * part, loaded.q);
    LoadWords<kAlign>(block + 128 + 32 * run + 16 * (in_run % 2), loaded.upper);
    loaded.scales[0] = LoadByte(block + 192 + 8 * run + in_run);
    loaded.scales[1] = LoadByte(block + 192 + 8 * run + in_run + 4);
    loaded.d = LoadShort(block + 208);
    return loaded;
  }
  MOEPACK_DEVICE static int First(int part, int group) {
    return part / 4 * 128 + part % 4 * 16 + 64 * group;
  }
  MOEPACK_DEVICE static Group<16> Decode(const Part& part, int index, int half) {
    Group<16> group;
    const auto scale = static_cast<int8_t>(part.scales[half]);
    group.scale = FloatOfHalf(part.d) * static_cast<float>(scale);
    MOEPACK_UNROLL
    for (int i = 0; i < 4; ++i) {
      const uint32_t upper = part.upper[i] >> index % 4 / 2 * 2 << (4 - 4 * half) & 0x30303030;
      LiftBytes((part.q[i] >> 4 * half & 0x0f0f0f0f) | upper, group.q, 4 * i);
    }
    return group;
  }
};

// Part p: the run of 32 values p; its first group is the low halves, its second, 16 values further
// on, the high halves.
struct Iq4Xs {
  static constexpr int kValues = 256, kParts = 8, kGroups = 2, kGroupValues = 16;
  static constexpr uint32_t kBytes = 136, kAlign = 8;
  static constexpr bool kScaled = true, kOffset = false;
  static constexpr float kBase = 0;
  struct Part {
    uint32_t head[2], q[4];
  };

  MOEPACK_DEVICE static Part Load(const uint8_t* block, int part) {
    Part loaded;
    LoadWords<kAlign>(block, loaded.head);
    LoadWords<kAlign>(block + 8 + 16 * part, loaded.q);
    return loaded;
  }
  MOEPACK_DEVICE static int First(int part, int group) { return 32 * part + 16 * group; }
  MOEPACK_DEVICE static Group<16> Decode(const Part& part, int index, int half) {
    Group<16> group;
    const uint32_t low = part.head[1] >> 4 * index & 15;
    const uint32_t high = part.head[0] >> (16 + 2 * index) & 3;
    group.scale = FloatOfHalf(part.head[0] & 0xffff) *
                  static_cast<float>(static_cast<int>(low | high << 4) - 32);
    DecodeIq4(part.q, half, group.q);
    return group;
  }
};

}  // namespace moepack::runtime::cuda
