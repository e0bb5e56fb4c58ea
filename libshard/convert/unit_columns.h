// Columns divided by their lengths, which need the whole matrix before the first row is made.
#pragma once

#include "libshard/convert/row_reader.h"
#include "libshard/format/checkpoint.h"

namespace moepack {

// Value c of every row is divided by the length (root of the sum of squares over all rows of
// `base`) of column c plus 1e-7: the head of Ling with norm_head. The lengths are summed up in
// double, in the order of rows, when the first row is decoded; for that the rows of `base` are read
// once more. `checkpoint` is the one that the base's ranges are in, and not borrowed.
RowReaderPtr UnitColumns(RowReaderPtr base, const Checkpoint& checkpoint);

}  // namespace moepack
