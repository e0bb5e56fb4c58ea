// Converts floats to integers, with a defined result for every float. Which of the two is used is
// part of each format.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace quant {

// Returns the nearest integer, ties to even, for |value| < 2^22. Beyond that the result consists of
// the low mantissa bits of value + 1.5 * 2^23, as in ggml's nearest_int; searches clamp it. NaN
// gives 0.
inline int NearestInt(float value) {
  if (std::isnan(value)) return 0;
  const uint32_t bits = std::bit_cast<uint32_t>(value + 0x1.8p23f);
  return static_cast<int>(bits & 0x007fffff) - 0x00400000;
}

// Returns the integer part. NaN and values that do not fit give the smallest int, as on x86-64.
inline int Truncate(float value) {
  if (!(value >= -0x1p31f && value < 0x1p31f)) return std::numeric_limits<int>::min();
  return static_cast<int>(value);
}

}  // namespace quant
