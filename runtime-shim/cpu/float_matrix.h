// Rows of floats in host memory.
#pragma once

#include <cstddef>
#include <span>

namespace moepack::runtime {

// Borrowed rows of floats; row i starts at first + i * stride.
struct FloatMatrix {
  const float* first = nullptr;
  size_t rows = 0, columns = 0, stride = 0;

  static FloatMatrix Of(std::span<const float> values, size_t columns) {
    return {values.data(), columns == 0 ? 0 : values.size() / columns, columns, columns};
  }
  const float* row(size_t i) const { return first + i * stride; }
  FloatMatrix Rows(size_t begin, size_t count) const {
    return {row(begin), count, columns, stride};
  }
};

}  // namespace moepack::runtime
