// The weights of gated residual streams (StreamShape::gated), and of a layer that embeds n-grams
// into them.
#pragma once

#include <string>
#include <vector>

#include "libshard/graph/model_spec.h"
#include "runtime-shim/executor/executor.h"
#include "runtime-shim/model/ngram_embedding.h"
#include "runtime-shim/model/tensor_slots.h"

namespace moepack::runtime {

// What a block reads of the streams, and how much of its output each of them gets.
struct GatedStreamWeights {
  std::vector<Matrix> norms;  // of each stream
  Matrix down, up;            // of the gates: to StreamShape::low_rank values, and back
  Matrix inject;              // a row for each stream; the model's head has none
};

// NgramShape: projections of the embedded n-grams, one for all streams and one for a single stream,
// and the norms of the first and of the streams.
struct NgramWeights {
  Matrix key, value;
  std::vector<Matrix> key_norms, query_norms;
  NgramConstants constants;
};

// `prefix`: "blk.0.hc_attn_"
GatedStreamWeights TakeGatedStreams(TensorSlots& slots, const std::string& prefix,
                                    const ModelSpec& spec);
// The same without `inject`.
GatedStreamWeights TakeHeadGates(TensorSlots& slots, const ModelSpec& spec);

// `prefix`: "blk.1.ple_"
NgramWeights TakeNgrams(TensorSlots& slots, const std::string& prefix, const ModelSpec& spec);
// The table, which has the rows that all heads pick from.
Matrix TakeNgramTable(TensorSlots& slots, const NgramShape& shape);

}  // namespace moepack::runtime
