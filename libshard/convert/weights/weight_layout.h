// From weights as a checkpoint stores them to one GGUF tensor: reorders rows, transposes or changes
// values, stacks experts.
#pragma once

#include <vector>

#include "libshard/base/result.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/convert/row_order.h"
#include "libshard/convert/weights/weight.h"

namespace moepack {

struct WeightLayout {
  RowLayout rows = {};
  ValueRule rule = ValueRule::kNone;
  bool packed = false;   // axis 0 of the only weight is the expert axis
  bool stacked = false;  // every weight is an expert, ascending by id
  uint64_t index = 0;    // of the tensor in the model
};

// Sets shape, experts, stored, sources and reader of `out`. Rows that are stored as such in the
// files, in whatever order, become source ranges; everything else gets a reader. REQUIRES: at least
// one weight, and exactly one unless stacked. kCorrupt for shapes that the order or rule does not
// fit, kUnsupported for experts that differ.
Status LayOutWeights(const WeightSource& source, const std::vector<Weight>& weights,
                     const WeightLayout& layout, GgufTensor& out);

}  // namespace moepack
