// From weights as a checkpoint stores them to one GGUF tensor: reorders rows, transposes or changes
// values, stacks experts.
#pragma once

#include <vector>

#include "libshard/base/result.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/convert/row_order.h"
#include "libshard/convert/row_reader.h"
#include "libshard/convert/weights/weight.h"
#include "libshard/format/checkpoint.h"

namespace moepack {

// Divides columns by their lengths, which requires the whole matrix before the first row can be
// made.

// Value c of every row is divided by the length (root of the sum of squares over all rows of
// `base`) of column c plus 1e-7: the head of Ling with norm_head. The lengths are summed in double,
// in row order, when the first row is decoded; the rows of `base` are read once more for that.
// `checkpoint` is the one that the base's ranges refer to; it is not borrowed.
RowReaderPtr UnitColumns(RowReaderPtr base, const Checkpoint& checkpoint);

struct WeightLayout {
  RowLayout rows = {};
  ValueRule rule = ValueRule::kNone;
  bool packed = false;   // axis 0 of the only weight is the expert axis
  bool stacked = false;  // every weight is an expert, ascending by id
  bool joined = false;   // the weights are runs of rows of one matrix, in their order
  uint64_t index = 0;    // of the tensor in the model
};

// Sets shape, experts, stored, sources and reader of `out`. Rows that are stored as such in the
// files, in whatever order, become source ranges; everything else gets a reader. REQUIRES: at least
// one weight, and exactly one unless stacked, joined or a product (kFactor). kCorrupt for shapes
// that the order or rule does not fit, kUnsupported for experts that differ in shape, or in the
// type of plain numbers.
Status LayOutWeights(const WeightSource& source, const std::vector<Weight>& weights,
                     const WeightLayout& layout, GgufTensor& out);

}  // namespace moepack
