// Values for tests that are the same everywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libshard/strategies/split_mix.h"

namespace moepack::runtime {

// Thousandths from -size to size.
inline std::vector<float> RandomFloats(size_t count, uint64_t seed, double size = 1) {
  SplitMix64 random(seed);
  std::vector<float> values(count);
  for (float& value : values)
    value = static_cast<float>(size * (static_cast<double>(random.Below(2001)) / 1000 - 1));
  return values;
}

}  // namespace moepack::runtime
