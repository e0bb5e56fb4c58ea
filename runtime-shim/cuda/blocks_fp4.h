// Decoders of mxfp4 and nvfp4: four bits per value, 32 or 64 values per block.
#pragma once

#include "runtime-shim/cuda/blocks.h"

namespace moepack::runtime::cuda {

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
