// Panels with memory of their own, and square matrices that are read along their columns.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "libshard/base/parallel.h"
#include "runtime-shim/cpu/panels.h"

namespace moepack::runtime {

// A panel with memory: [rows, kPanelColumns].
struct Tile {
  explicit Tile(size_t rows) : values(rows * kPanelColumns) {}
  float* row(size_t k) { return values.data() + k * kPanelColumns; }
  const float* row(size_t k) const { return values.data() + k * kPanelColumns; }
  Panel panel(size_t k = 0) { return {row(k)}; }
  ConstPanel panel(size_t k = 0) const { return {row(k)}; }
  std::vector<float> values;
};

// Calls work(row, column) for all of a square, small square by small square: transposed access to
// one would miss the cache at every step.
template <class Work>
void ForSquares(size_t n, size_t jobs, const Work& work) {
  constexpr size_t kSide = 32;
  ForPieces(n, kSide, jobs, [&](size_t top, size_t end) {
    for (size_t left = 0; left < n; left += kSide) {
      const size_t right = std::min(left + kSide, n);
      for (size_t row = top; row < end; ++row) {
        for (size_t column = left; column < right; ++column) work(row, column);
      }
    }
  });
}

}  // namespace moepack::runtime
