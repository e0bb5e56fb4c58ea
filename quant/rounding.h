// Float to integer, defined for every float. Which of these a format uses is part of the format.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace quant {

// Nearest integer, ties to even, for |value| < 2^22. Beyond that the result is whatever the low
// mantissa bits of value + 1.5 * 2^23 say, as in ggml; searches clamp it. NaN gives 0.
inline int NearestInt(float value) {
  if (std::isnan(value)) return 0;
  const uint32_t bits = std::bit_cast<uint32_t>(value + 0x1.8p23f);
  return static_cast<int>(bits & 0x007fffff) - 0x00400000;
}

// The whole part. What does not fit, NaN included, gives the smallest int, as x86-64 does.
inline int Truncate(float value) {
  if (!(value >= -0x1p31f && value < 0x1p31f)) return std::numeric_limits<int>::min();
  return static_cast<int>(value);
}

}  // namespace quant
