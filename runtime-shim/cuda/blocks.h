// Decoders of blocks, one type each, for one thread at a time. A block (layouts: quant/<type>.h) is
// cut into `kParts` parts of 4 to 16 bytes of integers, one for each thread; the values of a part
// are in `kGroups` runs of `kGroupValues` neighbours. Parts are ordered so that those of the first
// 128 values of a block come first.
//
//   Part Load(block, part)               loads and nothing more, so that loads can run ahead
//   First(part, group)                   index in the block of the group's first value
//   Decode(Part, part, group) -> Group   value[i] = (q[i] - kBase) * scale + offset
//
// kScaled: whether scale is not always 1; kOffset: whether offset is not always 0. kAlign:
// addresses of blocks must be a multiple of it.
#pragma once

#include "runtime-shim/cuda/device.h"

namespace moepack::runtime::cuda {

template <int kGroupValues>
struct Group {
  float q[kGroupValues];
  float scale = 1, offset = 0;

  template <class Type>
  MOEPACK_DEVICE float Value(int i) const {
    if constexpr (!Type::kScaled) return q[i];
    const float scaled = scale * (q[i] - Type::kBase);
    if constexpr (Type::kOffset) return scaled + offset;
    return scaled;
  }
};

// Types with one value per block: kCount values at a time, or one by one if rows are not aligned
// for more.
enum class Plain { kF32, kF16, kBf16, kF8E4M3, kF8E5M2 };

template <Plain kind>
inline constexpr uint32_t kPlainBytes = kind == Plain::kF32                           ? 4
                                        : kind == Plain::kF16 || kind == Plain::kBf16 ? 2
                                                                                      : 1;

MOEPACK_DEVICE float FloatOfF8E4M3(uint32_t byte) {
  const uint32_t sign = (byte & 0x80) << 24, magnitude = byte & 0x7f;
  if (magnitude == 0x7f) return FloatOfBits(sign | 0x7fc00000);
  if (magnitude >= 8) return FloatOfBits(sign | ((magnitude << 20) + (120u << 23)));
  const float small = static_cast<float>(magnitude) * 0x1p-9f;
  return sign != 0 ? -small : small;
}

template <Plain kind, int kCount>
struct PlainBlock {
  static constexpr int kValues = kCount, kParts = 1, kGroups = 1, kGroupValues = kCount;
  static constexpr uint32_t kBytes = kCount * kPlainBytes<kind>, kAlign = kBytes;
  static constexpr bool kScaled = false, kOffset = false;
  static constexpr float kBase = 0;
  struct Part {
    uint32_t words[(kBytes + 3) / 4];
  };

  MOEPACK_DEVICE static Part Load(const uint8_t* block, int) {
    Part part;
    if constexpr (kBytes == 1) {
      part.words[0] = LoadByte(block);
    } else if constexpr (kBytes == 2) {
      part.words[0] = LoadShort(block);
    } else {
      LoadWords<kAlign>(block, part.words);
    }
    return part;
  }
  MOEPACK_DEVICE static int First(int, int) { return 0; }
  MOEPACK_DEVICE static Group<kCount> Decode(const Part& part, int, int) {
    constexpr int kPerWord = 4 / kPlainBytes<kind>, kBits = 32 / kPerWord;
    Group<kCount> group;
    MOEPACK_UNROLL
    for (int i = 0; i < kCount; ++i) {
      group.q[i] =
          FloatOf(part.words[i / kPerWord] >> i % kPerWord * kBits & 0xffffffffu >> (32 - kBits));
    }
    return group;
  }

 private:
  MOEPACK_DEVICE static float FloatOf(uint32_t bits) {
    if constexpr (kind == Plain::kF32) return FloatOfBits(bits);
    if constexpr (kind == Plain::kF16) return FloatOfHalf(bits);
    if constexpr (kind == Plain::kBf16) return FloatOfBits(bits << 16);
    if constexpr (kind == Plain::kF8E4M3) return FloatOfF8E4M3(bits);
    return FloatOfHalf(bits << 8);
  }
};

// Sixteen one-byte codes, looked up four at a time.
struct CodeTable {
  uint32_t words[4];

  // Byte k of the result is the code that half-byte k of the lower 16 bits of `nibbles` names.
  MOEPACK_DEVICE uint32_t Look(uint32_t nibbles) const {
    const uint32_t lower = PermuteBytes(words[0], words[1], nibbles & 0x7777);
    const uint32_t upper = PermuteBytes(words[2], words[3], nibbles & 0x7777);
    return PermuteBytes(lower, upper, 0x3210 | (nibbles & 0x8888) >> 1);
  }

  // The codes of the low (half 0) or high half-bytes of `kCount` words, through `as_float`.
  template <int kCount, class AsFloat>
  MOEPACK_DEVICE void Decode(const uint32_t (&packed)[kCount], int half, float (&q)[4 * kCount],
                             const AsFloat& as_float) const {
    MOEPACK_UNROLL
    for (int i = 0; i < 2 * kCount; ++i) {
      const uint32_t codes = Look(packed[i / 2] >> i % 2 * 16);
      q[2 * i] = as_float(codes, static_cast<uint32_t>(half));
      q[2 * i + 1] = as_float(codes, static_cast<uint32_t>(half + 2));
    }
  }
};

// Codes plus 128, for CenteredByte: -127 -104 -83 -65  -49 -35 -22 -10  1 13 25 38  53 69 89 113
// (quant/tables/iq4.h).
template <int kCount>
MOEPACK_DEVICE void DecodeIq4(const uint32_t (&packed)[kCount], int half, float (&q)[4 * kCount]) {
  const CodeTable table{{0x3f2d1801, 0x766a5d4f, 0xa6998d81, 0xf1d9c5b5}};
  table.Decode(packed, half, q, [](uint32_t word, uint32_t k) { return CenteredByte(word, k); });
}

// Bits 0 ... 3, each as the lowest bit of a byte.
MOEPACK_DEVICE uint32_t SpreadBits(uint32_t bits) { return (bits & 15) * 0x00204081 & 0x01010101; }

// Bytes below 128 as lifted floats (LiftedByte).
template <int kCount>
MOEPACK_DEVICE void LiftBytes(uint32_t word, float (&q)[kCount], int first) {
  MOEPACK_UNROLL
  for (uint32_t k = 0; k < 4; ++k) q[first + static_cast<int>(k)] = LiftedByte(word, k);
}

}  // namespace moepack::runtime::cuda
