// The short floating-point types as bits. Every conversion to fewer bits rounds to nearest, ties to
// even, as IEEE 754 does; every conversion to float is exact.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace quant {

// F16: 1 sign, 5 exponent (bias 15), 10 mantissa bits.
inline float HalfToFloat(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00)
    return std::bit_cast<float>(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
  if (magnitude < 0x400) {  // subnormal: multiples of 2^-24
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
}

// NaN keeps its sign but not its payload.
inline uint16_t FloatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);
  if (magnitude >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);  // 65520 and above
  if (magnitude < 0x38800000) {
    // Below 2^-14 a half counts units of 2^-24, which are also the units of floats in [0.5, 1).
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000));
  }
  const uint32_t odd = magnitude >> 13 & 1;
  return static_cast<uint16_t>(sign | ((magnitude - (112u << 23) + 0xfff + odd) >> 13));
}

// Converts a block's scale. A search that overflows results in NaN, whose sign depends on the
// machine and on where the compiler puts a minus. The sign is always set to what x86-64 gives, so
// that bytes are the same everywhere.
inline uint16_t ScaleToHalf(float scale) {
  return std::isnan(scale) ? uint16_t{0xfe00} : FloatToHalf(scale);
}

// BF16: the upper half of a float.
inline float Bfloat16ToFloat(uint16_t value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value) << 16);
}

// NaN keeps its sign and upper payload bits and is made quiet.
inline uint16_t FloatToBfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// F8_E4M3 (OCP "E4M3FN"): 4 exponent bits (bias 7), 3 mantissa bits, no infinity; 0x7f is NaN.
inline float Float8E4M3ToFloat(uint8_t value) {
  const uint32_t sign = (value & 0x80u) << 24;
  const uint32_t magnitude = value & 0x7fu;
  if (magnitude == 0x7f) return std::bit_cast<float>(sign | 0x7fc00000);
  if (magnitude < 8) {  // subnormal: multiples of 2^-9
    const float small = static_cast<float>(magnitude) * 0x1p-9f;
    return sign != 0 ? -small : small;
  }
  return std::bit_cast<float>(sign | ((magnitude << 20) + (120u << 23)));
}

// F8_E5M2: the upper half of an F16.
inline float Float8E5M2ToFloat(uint8_t value) {
  return HalfToFloat(static_cast<uint16_t>(value << 8));
}

// E8M0, the scale of MXFP4: 2^(exponent - 127), as half of that because the code book of MXFP4 is
// stored doubled. 0 and 1 are subnormal floats; 255, which is NaN in the OCP format, is treated as
// a number.
inline float HalfOfE8M0(uint8_t exponent) {
  if (exponent < 2) return std::bit_cast<float>(0x00200000u << exponent);
  return std::bit_cast<float>((exponent - 1u) << 23);
}

}  // namespace quant
