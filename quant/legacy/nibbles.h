// Integers of four and five bits in groups of 32, as all ggml types of 32-value blocks store them:
// byte j holds value j in its low half and value j + 16 in its high half; fifth bits are stored
// separately: that of value i is bit i of a little-endian 32-bit word.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace quant {

inline constexpr size_t kGroup32 = 32;

// Packs the low four bits of each value.
inline void PackNibbles(std::span<const uint8_t, kGroup32> q, std::span<uint8_t, 16> out) {
  for (size_t j = 0; j < 16; ++j) out[j] = static_cast<uint8_t>((q[j] & 15) | q[j + 16] << 4);
}

inline void UnpackNibbles(std::span<const uint8_t, 16> packed, std::span<uint8_t, kGroup32> q) {
  for (size_t j = 0; j < 16; ++j) {
    q[j] = packed[j] & 15;
    q[j + 16] = packed[j] >> 4;
  }
}

inline void PackFifthBits(std::span<const uint8_t, kGroup32> q, std::span<uint8_t, 4> out) {
  for (size_t byte = 0; byte < 4; ++byte) {
    unsigned bits = 0;
    for (unsigned i = 0; i < 8; ++i) bits |= (q[8 * byte + i] >> 4 & 1u) << i;
    out[byte] = static_cast<uint8_t>(bits);
  }
}

// Adds the fifth bits to the result of UnpackNibbles.
inline void AddFifthBits(std::span<const uint8_t, 4> packed, std::span<uint8_t, kGroup32> q) {
  for (size_t i = 0; i < kGroup32; ++i) {
    q[i] = static_cast<uint8_t>(q[i] | (packed[i / 8] >> i % 8 & 1) << 4);
  }
}

}  // namespace quant
