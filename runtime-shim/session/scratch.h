// The rows that forward passes work in. A model has them once, for the largest batch of all its
// sessions; each session has its own cache.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/graph/model_spec.h"
#include "runtime-shim/executor/shapes.h"
#include "runtime-shim/model/key_compressor.h"
#include "runtime-shim/model/recurrence.h"

namespace moepack::runtime {

class DeviceModel;

// The rows that a layer keeps for later tokens. Row p is position p.
struct LayerCache {
  Rows keys, values;      // values may be columns of keys
  RecurrentState state;   // of a recurrent layer, which has no rows
  RecurrentState ngrams;  // of a layer that embeds n-grams, and so is recurrent
  // Of a layer with an indexer: one key for each position, or for each compressed key.
  std::vector<float> index_keys;
  // Of a layer with a ratio: a row for each complete block, and the tokens since then.
  Rows compressed_keys;
  CompressorState compressor, index_compressor;
};

using LayerCaches = std::vector<LayerCache>;

// A layer's state is what it cannot take back to an earlier token. Returns how many tokens went
// into it; none for a layer that keeps rows only.
std::optional<uint32_t> TokensInState(const LayerSpec& layer, const LayerCache& cache);
// Makes it the state of no tokens.
void ClearState(const ModelSpec& spec, uint32_t number, LayerCache& cache);

// All have `batch` rows, except for the logits. The comments give widths in values.
struct Scratch {
  uint32_t batch = 0;
  // ModelSpec::stream_width: what layers hand on to each other. It starts with `hidden`, of
  // hidden_width, and goes on with what layers keep of it.
  Rows stream, hidden;
  Rows normed, branch;  // width
  // ModelSpec::streams: two like hidden, and StreamShape::projected; two of the low rank.
  Rows next_streams, stream_parts, stream_mixes, low_gates, low_values;
  Rows scores;             // of residual attention: one for each part of `stream`
  Rows ngrams;             // ModelSpec::ngrams: picks * width of the table's rows
  Rows queries, attended;  // heads * key width, heads * value width
  Rows keys, values;       // like the widest layer's cache, for passes of several sessions
  // Latent and compressed attention: down-projected, before the heads' keys. query_wide also if
  // queries have gates: heads * 2 * key width.
  Rows query_low, query_wide;
  Rows gates;       // of gated queries: heads * key width; of gated attention: like `attended`
  Rows head_gates;  // heads, or heads * value width for ModelSpec::softplus_gates
  Rows output_low;  // ModelSpec::compressed: groups * rank
  // Of an indexer: heads * its width, its width, heads; and rows of a cache: top_k, for compressed
  // attention as many as a token sees at most.
  Rows index_queries, index_key, index_weights, picked;
  // Inputs and outputs of a recurrence: a delta net's channels and values, Mamba's projection and
  // inner width, the values of KDA, a convolution's projection and width.
  Rows recurrent_in, recurrent_out;
  Rows latent_out;             // latent attention: heads * rank
  Rows gate, up;               // the width of the widest MLP
  Rows expert_in, expert_out;  // width
  Rows beside;                 // ModelSpec::parallel_experts, routes_early, chunks: width
  Rows space_in, space_out;    // of ModelSpec::expert_space
  Rows zeros;                  // width, always zero
  Rows sizes;                  // of experts' outputs: 2, for each token and each of its experts
  Rows router;                 // the largest number of experts of a layer
  Rows shared_gate;            // 1
  Rows turns, local_turns;     // rope dims
  Rows back_turns, local_back_turns;  // ModelSpec::compressed: the same angles, backwards
  Rows logits;                        // vocabulary; as many rows as RowCounts::logit_bytes hold
  std::vector<BufferPtr> buffers;
};

// A session's rows for later tokens, `context` of them for each layer.
struct Caches {
  LayerCaches layers;
  std::vector<BufferPtr> buffers;
};

// The bytes of one more row of a batch, of one more position of a cache, and of the states of
// recurrent layers, which a session has once.
struct RowBytes {
  uint64_t scratch = 0, cache = 0, session = 0;
};
RowBytes BytesOfRow(const DeviceModel& model);

struct RowCounts {
  uint32_t batch = 1, context = 1;
  uint64_t logit_bytes = 0;  // of all logits at a time; at least one row
  // Only this layer has a cache; for passes that run one layer at a time.
  std::optional<uint32_t> layer = {};
};
// Allocates all rows, the scratch only if `scratch` has fewer than the batch. kUnavailable, with
// the bytes, if they do not fit.
Result<Caches> AllocateRows(const DeviceModel& model, const RowCounts& counts, Scratch& scratch);

}  // namespace moepack::runtime
