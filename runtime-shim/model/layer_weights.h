// A model's weights on an executor, ordered by their use in the forward pass.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/graph/model_spec.h"
#include "runtime-shim/executor/executor.h"
#include "runtime-shim/model/compressed_weights.h"
#include "runtime-shim/model/gated_streams.h"
#include "runtime-shim/model/indexer.h"
#include "runtime-shim/model/kda.h"
#include "runtime-shim/model/recurrence.h"
#include "runtime-shim/model/tensor_slots.h"
#include "runtime-shim/model/weights.h"

namespace moepack::runtime {

struct AttentionWeights {
  Linear norm;
  Matrix norm_after;  // of attention's output (Gemma-4, AFMoE)
  Linear query, key, value, output;
  Matrix query_norm, key_norm, sinks;
  // One row per head, whose sigmoid multiplies the head's result (Step-3.5, Ling 3.0); with
  // ModelSpec::softplus_gates the softplus of a row per head or per value.
  Matrix head_gate;
  Matrix output_gate;  // ModelSpec::gated_attention
  // ModelSpec::blocks: the indexer's queries and keys, and the norms of each head.
  Matrix index_query, index_key, index_query_norm, index_key_norm;
  std::vector<float> pooled_norm;  // instead of index_key_norm, for BlockShape::pooled
  // Multi-head latent attention. key_up: per head [rank, nope_width]; value_up: per head
  // [value_width, rank]; both stacked over the heads.
  Matrix query_down, query_down_norm, query_up, latent_down, latent_norm, key_up, value_up;
};

// A gated delta net. The rows of `strengths` are those of beta and alpha: one matrix in which
// they are together for each key head (Qwen3-Next), or `strengths` for beta and `rates` for
// alpha.
struct DeltaWeights {
  Matrix mixed, gate, strengths, rates, output;
  DeltaConstants constants;
};

// Kimi delta attention; the output's projection is AttentionWeights::output. A decay of low rank is
// projected by `decay_down` first (Kimi-K3).
struct KdaWeights {
  Matrix query, key, value, decay_down, decay, gate, strength;
  KdaConstants constants;
};

// The rows of `in` are those of gates, channels and time steps (recurrence.h).
struct MambaWeights {
  Matrix in, out;
  MambaConstants constants;
};

// The rows of `in` are those of ConvolutionShape. kernel: width x kernel, the latest token last.
struct ConvolutionWeights {
  Matrix in, out;
  std::vector<float> kernel;
};

// Of layers with an indexer of their own: its projections, and what the host needs.
struct IndexerWeights {
  Matrix queries, key, weights;
  IndexerConstants constants;
};

// ModelSpec::parallel_experts: norms of the MLP's output, of the experts' input, of their output,
// and of both together; the router's norm; the factor of the layer's result.
struct ParallelWeights {
  Matrix mlp_out, experts_in, experts_out, out, router;
  float scale = 1;
};

struct LayerWeights {
  AttentionWeights attention;
  // Recurrent layers have one of these; of `attention` they only have the norm, and with KDA the
  // output.
  DeltaWeights delta;
  KdaWeights kda;
  MambaWeights mamba;
  ConvolutionWeights convolution;
  IndexerWeights indexer;
  CompressedWeights compressed;  // ModelSpec::compressed
  // What attention, and the MLP or experts, read of several streams.
  StreamWeights mixer_streams, streams;
  NgramWeights ngrams;  // LayerSpec::embeds_ngrams
  Linear mlp_norm;
  MlpWeights dense;  // of layers without experts, or beside them
  ParallelWeights parallel;
  Linear router;  // of layers with experts
  std::vector<float> selection_bias;
  // LayerSpec::routes_by_table: the experts of each token id, `top_k` of them.
  std::vector<uint32_t> expert_table;
  // ModelSpec::expert_space: to the experts' space and back; the norm before the second.
  Matrix space_down, space_up, space_norm;
  MlpWeights shared;
  Matrix shared_gate;
  std::vector<MlpWeights> chunks;  // ModelSpec::chunks
  Matrix norm_after;               // ModelSpec::norms_after: of the MLP's or the experts' output
  bool moe() const { return static_cast<bool>(router.weight); }
};

// The experts of a layer by id; null for an expert that no set in use holds.
using LayerExpertTable = std::vector<const MlpWeights*>;

// A router, and the bias that takes part in its choice.
struct RouterWeights {
  Linear rows;
  std::vector<float> selection_bias;
};

// A set of experts on the executor.
struct DeviceSet {
  std::string label;
  std::optional<uint32_t> group;
  LayerExperts experts_by_layer;
  // For each layer, in the order of its ids.
  std::vector<std::vector<MlpWeights>> layers;
  std::map<uint32_t, RouterWeights> routers;  // of the layers in which the set has its own
  std::vector<BufferPtr> buffers;
  uint64_t bytes = 0;
};

// All weights except the routed experts.
struct DeviceTrunk {
  Matrix embedding, output, output_bias;
  Linear output_norm;
  StreamWeights streams;  // ModelSpec::streams: what the head reads
  Matrix ngram_table;     // ModelSpec::ngrams
  std::vector<float> rope_factors, rope_long, rope_short;
  std::vector<LayerWeights> layers;
  std::vector<BufferPtr> buffers;
  uint64_t bytes = 0;
};

// Uploads the tensors that the model's spec requires. kCorrupt for a tensor that is missing or
// has another shape, kUnsupported for one that nothing uses or whose type the executor cannot
// read.
Result<DeviceTrunk> UploadTrunk(const Weights& weights, const ModelSpec& spec, Executor& executor);
// Uploads a set of experts; `label` names it in errors.
Result<DeviceSet> UploadSet(const std::string& path, const ExpertSet& set, const ModelSpec& spec,
                            Executor& executor);

}  // namespace moepack::runtime
