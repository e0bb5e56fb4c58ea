// Packs the 256 integers of a k-quant block into bytes. The values in one byte are 32 or 64 apart,
// so that a mask and a shift unpack a vector of bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace quant {

inline constexpr size_t kSuperBlock = 256;
using Levels = std::array<uint8_t, kSuperBlock>;

// Returns the part of a block's values, weights or integers that belongs to a group.
template <size_t kGroupValues>
std::span<const float> GroupOf(std::span<const float> values, size_t group) {
  return values.subspan(group * kGroupValues, kGroupValues);
}

template <size_t kGroupValues>
std::span<uint8_t> GroupOf(Levels& q, size_t group) {
  return std::span(q).subspan(group * kGroupValues, kGroupValues);
}

// Packs two bits of each value, from bit `shift` on. In each run of 128, byte l holds those of
// values l, l + 32, l + 64 and l + 96, lowest bits first.
inline void PackTwoBits(const Levels& q, unsigned shift, std::span<uint8_t, 64> out) {
  for (size_t run = 0; run < 2; ++run) {
    const uint8_t* const from = q.data() + 128 * run;
    uint8_t* const to = out.data() + 32 * run;
    for (size_t l = 0; l < 32; ++l) {
      const unsigned low = (from[l] >> shift & 3u) | (from[l + 32] >> shift & 3u) << 2;
      const unsigned high = (from[l + 64] >> shift & 3u) | (from[l + 96] >> shift & 3u) << 2;
      to[l] = static_cast<uint8_t>(low | high << 4);
    }
  }
}

inline unsigned TwoBitsOf(std::span<const uint8_t, 64> packed, size_t i) {
  return packed[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3u;
}

// Packs bit `shift` of each value. That of value i is in bit i / 32 of byte i % 32. Eight bytes are
// shifted as one word, and the mask drops what comes from the next byte.
inline void PackOneBit(const Levels& q, unsigned shift, std::span<uint8_t, 32> out) {
  constexpr uint64_t kLowest = 0x0101010101010101;
  for (size_t l = 0; l < 32; l += sizeof(uint64_t)) {
    uint64_t packed = 0;
    for (unsigned k = 0; k < 8; ++k) {
      uint64_t word;
      std::memcpy(&word, q.data() + 32 * k + l, sizeof(word));
      packed |= (word >> shift & kLowest) << k;
    }
    std::memcpy(out.data() + l, &packed, sizeof(packed));
  }
}

inline unsigned OneBitOf(std::span<const uint8_t, 32> packed, size_t i) {
  return packed[i % 32] >> i / 32 & 1u;
}

// Packs the low four bits of each value. In each run of 2 * distance values (distance is 32 or 64),
// byte l holds value l in its low half and value l + distance in its high half.
inline void PackFourBits(const Levels& q, size_t distance, std::span<uint8_t, 128> out) {
  for (size_t run = 0; run < 128; run += distance) {
    const uint8_t* const from = q.data() + 2 * run;
    for (size_t l = 0; l < distance; ++l) {
      out[run + l] = static_cast<uint8_t>((from[l] & 15) | from[l + distance] << 4);
    }
  }
}

inline unsigned FourBitsOf(std::span<const uint8_t, 128> packed, size_t distance, size_t i) {
  const size_t in_run = i % (2 * distance);
  const size_t byte = i / (2 * distance) * distance + in_run % distance;
  return in_run < distance ? packed[byte] & 15u : packed[byte] >> 4;
}

}  // namespace quant
