// Packed integers in groups, as compressed-tensors stores them ("pack-quantized"; Kimi-K2).
#pragma once

#include "libshard/convert/weights/weight.h"

namespace moepack {

// For a weight [rows, columns] with b bits per code and groups of g columns:
//   weight_packed      I32 [rows, ceil(columns * b / 32)], codes along the row, low bits first
//   weight_scale       F32, BF16 or F16 [rows, ceil(columns / g)]
//   weight_shape       I32 or I64 [2]: rows and columns; words may hold more codes than that
//   weight_zero_point  I32 [ceil(rows * b / 32), groups], packed down the columns; where it is
//                      missing the zero is 2^(b - 1)
//   weight_g_idx       I32 [columns], optional: the group of each column
// value = (code - zero) * scale, in F32. A column whose group does not exist becomes NaN.
//
// Four bits without zero points and group indexes, in groups of a multiple of 32 columns (or one
// per row), can be repacked to q4_0, whose values are d * (code - 8): the codes are kept, d is the
// scale rounded to F16.
Result<Weight> ReadPackedWeight(const WeightSource& source, const StoredWeight& stored);

}  // namespace moepack
