#pragma once

#include <array>

#include "quant/ternary/ternary.h"

namespace quant {

// tq1_0: 256 values in 54 bytes (1.6875 bits each). Little-endian, no alignment required.
//
//   bytes    field    meaning
//   0-31     qs       byte l holds values l, l + 32, ... l + 128
//   32-47    qs       byte 32 + l holds values 160 + l, 176 + l, ... 224 + l
//   48-51    qs       byte 48 + l holds values 240 + l, 244 + l, 248 + l, 252 + l
//   52-53    d        F16
//
// A byte holds five trits (the last four bytes: four and a 0), the first as the most significant
// digit of a base-3 number n < 243, and stores ceil(n * 256 / 243), so that the next digit is the
// carry of a multiplication by 3. value[i] = d * (trit - 1).
struct BlockTq10 {
  static constexpr size_t kValues = kSuperBlock;
  uint8_t qs[52];
  uint16_t d;
};
static_assert(sizeof(BlockTq10) == 54);

// `count` bytes starting at byte `byte`: the l-th of them holds the values first + l + k * count, k
// < trits.
struct TritRun {
  size_t byte, count, first, trits;
};
inline constexpr std::array<TritRun, 3> kTritRuns = {
    {{0, 32, 0, 5}, {32, 16, 160, 5}, {48, 4, 240, 4}}};

inline constexpr size_t kTritsOfByte = 5;

// The byte of five trits with this number: the number times 256 / 243, rounded up.
inline uint8_t ByteOfTrits(unsigned number) {
  return static_cast<uint8_t>((number * 256 + 242) / 243);
}

// Encoder and Decoder of format.h. The importance is not used.
void EncodeTq10(std::span<const float> values, std::span<const float> importance,
                std::span<std::byte> out);
void EncodeTq10Ref(std::span<const float> values, std::span<const float> importance,
                   std::span<std::byte> out);
void DecodeTq10(std::span<const std::byte> blocks, std::span<float> out);
void DecodeTq10Ref(std::span<const std::byte> blocks, std::span<float> out);

}  // namespace quant
