// Packed integers as GPTQ and AWQ store them: the matrix is transposed, with a column for every
// output.
#pragma once

#include "libshard/convert/weights/weight.h"

namespace moepack {

// For a weight [rows, columns], where rows are outputs, with b bits per code and groups of g
// columns:
//   GPTQ  qweight I32 [columns * b / 32, rows], codes down the columns, low bits first
//         g_idx   I32 [columns], the group of each column
//   AWQ   qweight I32 [columns, rows * b / 32], codes along the rows; the eight of a word stand in
//         the order 0, 2, 4, 6, 1, 3, 5, 7 from the lowest bits
//   both  scales F16, BF16 or F32 [groups, rows], qzeros I32 [groups, rows * b / 32], packed along
//         the rows in the method's own order
// value = (code - zero) * scale, in F32; GPTQ stores zero - 1 (WeightConfig::zeros_less_one). A
// column whose group does not exist becomes NaN.
Result<Weight> ReadGptqWeight(const WeightSource& source, const StoredWeight& stored);

}  // namespace moepack
