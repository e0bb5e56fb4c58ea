// A model's weights on an executor, ordered by their use in the forward pass.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/graph/model_spec.h"
#include "runtime-shim/executor/executor.h"
#include "runtime-shim/model/indexer.h"
#include "runtime-shim/model/kda.h"
#include "runtime-shim/model/recurrence.h"
#include "runtime-shim/model/weights.h"

namespace moepack::runtime {

// Takes tensors by name from a list, checks their shapes and uploads them. A tensor that nothing
// took is an error at the end.

// Rows and columns of a matrix. For a tensor with more than two dimensions, all but the last make
// up the rows. 0: any number.
struct MatrixShape {
  uint64_t rows = 0, columns = 0;
};

// Keeps the first error, after which nothing more is uploaded.
class TensorSlots {
 public:
  // Borrows all arguments. `path` names the file in errors.
  TensorSlots(const std::string& path, std::span<const HostTensor> tensors, Executor& executor);

  bool Has(const std::string& name) const { return tensors_.count(name) > 0; }
  // Takes a matrix; the result is empty if it is absent.
  Matrix Optional(const std::string& name, MatrixShape shape);
  Matrix Required(const std::string& name, MatrixShape shape);
  // Takes a tensor that is not used; it may be absent.
  void Ignore(const std::string& name) { taken_.insert(name); }
  // Takes F32 values to the host; empty if the tensor is absent.
  std::vector<float> Values(const std::string& name, uint64_t count) {
    return Values(name, {1, count});
  }
  // The same for a matrix, row after row, which must exist.
  std::vector<float> Values(const std::string& name, MatrixShape shape);
  // Takes a vector that must be F32: a norm or bias.
  Matrix OptionalVector(const std::string& name, uint64_t width);
  Matrix RequiredVector(const std::string& name, uint64_t width);

  void Refuse(const std::string& name, const std::string& expected, const std::string& found);
  // Returns the first error, or kUnsupported for a tensor that nothing took.
  Status Finish() const;
  bool failed() const { return error_.has_value(); }
  std::vector<BufferPtr> TakeBuffers() { return std::move(buffers_); }
  uint64_t bytes() const { return bytes_; }

 private:
  const HostTensor* Take(const std::string& name, MatrixShape shape);
  Matrix Upload(const HostTensor& tensor);

  const std::string& path_;
  Executor& executor_;
  std::map<std::string, const HostTensor*, std::less<>> tensors_;
  std::set<std::string, std::less<>> taken_;
  std::vector<BufferPtr> buffers_;
  uint64_t bytes_ = 0;
  std::optional<Error> error_;
};

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

// Kimi delta attention; the output's projection is AttentionWeights::output.
struct KdaWeights {
  Matrix query, key, value, decay, gate, strength;
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
  Linear mlp_norm;
  MlpWeights dense;  // of layers without experts, or beside them
  ParallelWeights parallel;
  Linear router;  // of layers with experts
  std::vector<float> selection_bias;
  Matrix space_down, space_up;  // ModelSpec::expert_space: to the experts' space and back
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
