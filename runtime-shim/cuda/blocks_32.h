// Decoders of the types with 32 values per block. Two threads share a block of four or five bits:
// part p has bytes 8p ... 8p + 7, whose low halves are values 8p + i and whose high halves are
// values 16 + 8p + i.
#pragma once

#include "runtime-shim/cuda/blocks.h"

namespace moepack::runtime::cuda {

struct Q80 {
  static constexpr int kValues = 32, kParts = 4, kGroups = 1, kGroupValues = 8;
  static constexpr uint32_t kBytes = 34, kAlign = 2;
  static constexpr bool kScaled = true, kOffset = false;
  static constexpr float kBase = 0;
  struct Part {
    uint32_t q[2], d;
  };

  MOEPACK_DEVICE static Part Load(const uint8_t* block, int part) {
    Part loaded;
    loaded.d = LoadShort(block);
    LoadWords<kAlign>(block + 2 + 8 * part, loaded.q);
    return loaded;
  }
  MOEPACK_DEVICE static int First(int part, int) { return 8 * part; }
  MOEPACK_DEVICE static Group<8> Decode(const Part& part, int, int) {
    Group<8> group;
    group.scale = FloatOfHalf(part.d);
    MOEPACK_UNROLL
    for (int i = 0; i < 8; ++i) {
      group.q[i] = CenteredByte(part.q[i / 4] ^ 0x80808080, static_cast<uint32_t>(i % 4));
    }
    return group;
  }
};

// q4_0, q4_1, q5_0, q5_1: d, m if kWithMin, fifth bits if kWithFifth, half-bytes.
template <bool kWithMin, bool kWithFifth>
struct Nibble32 {
  static constexpr int kValues = 32, kParts = 2, kGroups = 2, kGroupValues = 8;
  static constexpr uint32_t kFifthAt = kWithMin ? 4 : 2;
  static constexpr uint32_t kNibblesAt = kFifthAt + (kWithFifth ? 4 : 0);
  static constexpr uint32_t kBytes = kNibblesAt + 16, kAlign = kWithMin ? 4 : 2;
  static constexpr bool kScaled = true, kOffset = kWithMin;
  static constexpr float kBase = kLift + (kWithMin ? 0 : kWithFifth ? 16 : 8);
  struct Part {
    uint32_t q[2], fifth[1], head;  // head: d, and m above it
  };

  MOEPACK_DEVICE static Part Load(const uint8_t* block, int part) {
    Part loaded{};
    if constexpr (kWithMin) {
      uint32_t head[1];
      LoadWords<kAlign>(block, head);
      loaded.head = head[0];
    } else {
      loaded.head = LoadShort(block);
    }
    if constexpr (kWithFifth) LoadWords<kAlign>(block + kFifthAt, loaded.fifth);
    LoadWords<kAlign>(block + kNibblesAt + 8 * part, loaded.q);
    return loaded;
  }
  MOEPACK_DEVICE static int First(int part, int group) { return 8 * part + 16 * group; }
  MOEPACK_DEVICE static Group<8> Decode(const Part& part, int index, int half) {
    Group<8> group;
    group.scale = FloatOfHalf(part.head & 0xffff);
    if constexpr (kWithMin) group.offset = FloatOfHalf(part.head >> 16);
    const int first = First(index, half);
    MOEPACK_UNROLL
    for (int i = 0; i < 2; ++i) {
      uint32_t q = part.q[i] >> 4 * half & 0x0f0f0f0f;
      if constexpr (kWithFifth) q |= SpreadBits(part.fifth[0] >> (first + 4 * i)) << 4;
      LiftBytes(q, group.q, 4 * i);
    }
    return group;
  }
};
using Q40 = Nibble32<false, false>;
using Q41 = Nibble32<true, false>;
using Q50 = Nibble32<false, true>;
using Q51 = Nibble32<true, true>;

struct Iq4Nl {
  static constexpr int kValues = 32, kParts = 2, kGroups = 2, kGroupValues = 8;
  static constexpr uint32_t kBytes = 18, kAlign = 2;
  static constexpr bool kScaled = true, kOffset = false;
  static constexpr float kBase = 0;
  struct Part {
    uint32_t q[2], d;
  };

  MOEPACK_DEVICE static Part Load(const uint8_t* block, int part) {
    Part loaded;
    loaded.d = LoadShort(block);
    LoadWords<kAlign>(block + 2 + 8 * part, loaded.q);
    return loaded;
  }
  MOEPACK_DEVICE static int First(int part, int group) { return 8 * part + 16 * group; }
  MOEPACK_DEVICE static Group<8> Decode(const Part& part, int, int half) {
    Group<8> group;
    group.scale = FloatOfHalf(part.d);
    DecodeIq4(part.q, half, group.q);
    return group;
  }
};

// Decoders of mxfp4 and nvfp4: four bits per value, 32 or 64 values per block.

// Twice the values of E2M1 plus 12, so that they are bytes (quant/tables/fp4.h): 0 1 2 3  4 6 8 12
// 0 -1 -2 -3  -4 -6 -8 -12.
inline constexpr float kFp4Base = kLift + 12;
template <int kCount>
MOEPACK_DEVICE void DecodeFp4(const uint32_t (&packed)[kCount], int half, float (&q)[4 * kCount]) {
  const CodeTable table{{0x0f0e0d0c, 0x18141210, 0x090a0b0c, 0x00040608}};
  table.Decode(packed, half, q, [](uint32_t word, uint32_t k) { return LiftedByte(word, k); });
}

struct Mxfp4 {
  static constexpr int kValues = 32, kParts = 2, kGroups = 2, kGroupValues = 8;
  static constexpr uint32_t kBytes = 17, kAlign = 1;
  static constexpr bool kScaled = true, kOffset = false;
  static constexpr float kBase = kFp4Base;
  struct Part {
    uint32_t q[2], e;
  };

  MOEPACK_DEVICE static Part Load(const uint8_t* block, int part) {
    Part loaded;
    loaded.e = LoadByte(block);
    LoadWords<kAlign>(block + 1 + 8 * part, loaded.q);
    return loaded;
  }
  MOEPACK_DEVICE static int First(int part, int group) { return 8 * part + 16 * group; }
  MOEPACK_DEVICE static Group<8> Decode(const Part& part, int, int half) {
    Group<8> group;
    // quant::HalfOfE8M0
    group.scale = FloatOfBits(part.e < 2 ? 0x00200000u << part.e : (part.e - 1) << 23);
    DecodeFp4(part.q, half, group.q);
    return group;
  }
};

// Part p is group p of 16 values; its low halves are the first eight.
struct Nvfp4 {
  static constexpr int kValues = 64, kParts = 4, kGroups = 2, kGroupValues = 8;
  static constexpr uint32_t kBytes = 36, kAlign = 4;
  static constexpr bool kScaled = true, kOffset = false;
  static constexpr float kBase = kFp4Base;
  struct Part {
    uint32_t q[2], d;
  };

  MOEPACK_DEVICE static Part Load(const uint8_t* block, int part) {
    Part loaded;
    loaded.d = LoadByte(block + part);
    LoadWords<kAlign>(block + 4 + 8 * part, loaded.q);
    return loaded;
  }
  MOEPACK_DEVICE static int First(int part, int group) { return 16 * part + 8 * group; }
  MOEPACK_DEVICE static Group<8> Decode(const Part& part, int, int half) {
    Group<8> group;
    // quant::HalfOfUnsignedE4M3
    const uint32_t exponent = part.d >> 3 & 15, mantissa = part.d & 7;
    group.scale = exponent == 0 ? static_cast<float>(mantissa) * 0x1p-10f
                                : FloatOfBits((exponent + 119) << 23 | mantissa << 20);
    if (part.d == 0x7f) group.scale = 0;
    DecodeFp4(part.q, half, group.q);
    return group;
  }
};

}  // namespace moepack::runtime::cuda
