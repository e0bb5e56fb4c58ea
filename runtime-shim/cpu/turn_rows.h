// Transposes rows of floats in memory.
#pragma once

#include <cstddef>

namespace moepack::runtime {

// Borrowed rows of `columns` floats; row r starts at first + r * stride.
struct StraightRows {
  const float* first = nullptr;
  size_t stride = 0;
  size_t rows = 0, columns = 0;
};

// to[c * stride + r] = row r's value c. Fastest if `stride` is not a multiple of 1,024: rows that
// are 4 KiB apart share a few places in the first-level cache. REQUIRES: the ranges do not overlap.
void TurnRows(const StraightRows& from, float* to, size_t stride);
void TurnRowsRef(const StraightRows& from, float* to, size_t stride);

}  // namespace moepack::runtime
