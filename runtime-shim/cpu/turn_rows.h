// Transposes rows of floats in memory.
#pragma once

#include <cstddef>

#include "runtime-shim/cpu/float_matrix.h"

namespace moepack::runtime {

// to[c * stride + r] = row r's value c. Fastest if `stride` is not a multiple of 1,024: rows that
// are 4 KiB apart share a few places in the first-level cache. REQUIRES: the ranges do not overlap.
void TurnRows(const FloatMatrix& from, float* to, size_t stride);
void TurnRowsRef(const FloatMatrix& from, float* to, size_t stride);

}  // namespace moepack::runtime
