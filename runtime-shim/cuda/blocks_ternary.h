// Decoders of tq1_0 and tq2_0: -1, 0 and 1 times one scale. Most values are 0: subtracting a base
// from the sums would leave rounding errors in their place.
#pragma once

#include "runtime-shim/cuda/blocks_k.h"

namespace moepack::runtime::cuda {

// Digits 0, 1 and 2 of `kCount` bytes as -1, 0 and 1.
template <int kCount>
MOEPACK_DEVICE void LiftTrits(uint32_t word, float (&q)[kCount], int first) {
  LiftBytes(word, q, first);
  MOEPACK_UNROLL
  for (int i = 0; i < 4; ++i) q[first + i] -= kLift + 1;
}

// Part p is values 32p ... 32p + 31, and group g of it is four of them: one digit of four bytes.
// Parts 0 ... 4 are the digits of bytes 0 ... 31; parts 5, 6 and the first half of part 7 those of
// bytes 32 ... 47; its second half is four digits of bytes 48 ... 51.
struct Tq10 {
  static constexpr int kValues = 256, kParts = 8, kGroups = 8, kGroupValues = 4;
  static constexpr uint32_t kBytes = 54, kAlign = 2;
  static constexpr bool kScaled = true, kOffset = false;
  static constexpr float kBase = 0;
  struct Part {
    uint32_t q[8], d;  // q[g] has the digits of group g
  };

  MOEPACK_DEVICE static Part Load(const uint8_t* block, int part) {
    Part loaded;
    loaded.d = LoadShort(block + 52);
    if (part < 5) {
      LoadWords<kAlign>(block, loaded.q);
      return loaded;
    }
    uint32_t words[4], last[1];
    LoadWords<kAlign>(block + 32, words);
    LoadWords<kAlign>(block + 48, last);
    MOEPACK_UNROLL
    for (int i = 0; i < 4; ++i) {
      loaded.q[i] = words[i];
      loaded.q[4 + i] = part < 7 ? words[i] : last[0];
    }
    return loaded;
  }
  MOEPACK_DEVICE static int First(int part, int group) { return 32 * part + 4 * group; }
  MOEPACK_DEVICE static Group<4> Decode(const Part& part, int index, int run) {
    Group<4> group;
    group.scale = FloatOfHalf(part.d);
    LiftTrits(DigitsOf(part.q[run], PlaceOf(index, run)), group.q, 0);
    return group;
  }

 private:
  MOEPACK_DEVICE static uint32_t PlaceOf(int part, int group) {
    if (part < 5) return static_cast<uint32_t>(part);
    if (part < 7) return static_cast<uint32_t>(part % 5 * 2 + group / 4);
    return static_cast<uint32_t>(group < 4 ? 4 : group - 4);
  }
  // A digit is the carry of a multiplication by 3 once the digits before it are gone: bytes are
  // multiplied by 3 to the power of the position, two at a time in halves of a word.
  MOEPACK_DEVICE static uint32_t DigitsOf(uint32_t bytes, uint32_t place) {
    const uint32_t power = PermuteBytes(0x1b090301, 0x51, place) & 0xff;
    const uint32_t even = (bytes & 0x00ff00ff) * power & 0x00ff00ff;
    const uint32_t odd = (bytes >> 8 & 0x00ff00ff) * power & 0x00ff00ff;
    return (even * 3 >> 8 & 0x00030003) | (odd * 3 & 0x03000300);
  }
};

struct Tq20 {
  static constexpr int kValues = 256, kParts = 4, kGroups = 4, kGroupValues = 16;
  static constexpr uint32_t kBytes = 66, kAlign = 2;
  static constexpr bool kScaled = true, kOffset = false;
  static constexpr float kBase = 0;
  struct Part {
    uint32_t q[4], d;
  };

  MOEPACK_DEVICE static Part Load(const uint8_t* block, int part) {
    Part loaded;
    LoadWords<kAlign>(block + 16 * part, loaded.q);
    loaded.d = LoadShort(block + 64);
    return loaded;
  }
  MOEPACK_DEVICE static int First(int part, int group) { return FirstOfPairs(part, group); }
  MOEPACK_DEVICE static Group<16> Decode(const Part& part, int, int pair) {
    Group<16> group;
    group.scale = FloatOfHalf(part.d);
    MOEPACK_UNROLL
    for (int i = 0; i < 4; ++i) LiftTrits(part.q[i] >> 2 * pair & 0x03030303, group.q, 4 * i);
    return group;
  }
};

}  // namespace moepack::runtime::cuda
