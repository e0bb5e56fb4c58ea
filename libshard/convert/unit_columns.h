// Divides columns by their lengths, which requires the whole matrix before the first row can be
// made.
#pragma once

#include "libshard/convert/row_reader.h"
#include "libshard/format/checkpoint.h"

namespace moepack {

// Value c of every row is divided by the length (root of the sum of squares over all rows of
// `base`) of column c plus 1e-7: the head of Ling with norm_head. The lengths are summed in double,
// in row order, when the first row is decoded; the rows of `base` are read once more for that.
// `checkpoint` is the one that the base's ranges refer to; it is not borrowed.
RowReaderPtr UnitColumns(RowReaderPtr base, const Checkpoint& checkpoint);

}  // namespace moepack
