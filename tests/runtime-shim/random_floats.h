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

// A A' + I of random A, [size, size]: positive definite.
inline std::vector<double> DefiniteMatrix(size_t size) {
  const std::vector<float> values = RandomFloats(size * size, 3);
  std::vector<double> matrix(size * size, 0);
  for (size_t i = 0; i < size; ++i) {
    for (size_t j = 0; j < size; ++j) {
      for (size_t k = 0; k < size; ++k)
        matrix[i * size + j] += double{values[i * size + k]} * values[j * size + k];
    }
    matrix[i * size + i] += 1;
  }
  return matrix;
}

}  // namespace moepack::runtime
