// The weights of DeepSeek-V4's attention and of its residual streams.
#pragma once

#include <cstdint>
#include <string>

#include "libshard/graph/model_spec.h"
#include "runtime-shim/executor/executor.h"
#include "runtime-shim/model/gated_streams.h"
#include "runtime-shim/model/hyper_connections.h"
#include "runtime-shim/model/key_compressor.h"
#include "runtime-shim/model/tensor_slots.h"

namespace moepack::runtime {

// A compressor of keys: the projections of values and scores.
struct CompressorWeights {
  Matrix values, scores;
  CompressorConstants constants;
};

// ModelSpec::compressed.
struct CompressedWeights {
  Matrix query_down, query_down_norm, query_up;
  Matrix key, key_norm;
  Matrix output_down;  // groups x rank rows, each group's for its own heads
  Matrix output_up;
  CompressorWeights compressor;  // of layers with a ratio
  // Of layers with an indexer: its queries, the weights of its heads, and its compressor.
  Matrix index_queries, index_weights;
  CompressorWeights index_compressor;
};

// ModelSpec::streams: `projection` has StreamShape::projected() rows, for the head of the model
// StreamShape::count. Gated streams have neither. ModelSpec::residual_block: only a score, of one
// row.
struct StreamWeights {
  Matrix projection;
  StreamConstants constants;
  GatedStreamWeights gates;
  Matrix score = {};
};

CompressedWeights TakeCompressed(TensorSlots& slots, const ModelSpec& spec, uint32_t layer);
// `prefix`: "blk.0.hc_attn_"
StreamWeights TakeStreams(TensorSlots& slots, const std::string& prefix, const ModelSpec& spec);
StreamWeights TakeHeadStreams(TensorSlots& slots, const ModelSpec& spec);

}  // namespace moepack::runtime
