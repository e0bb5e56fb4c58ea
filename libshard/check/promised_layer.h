// The names and shapes of a layer's tensors, as the rows of its family and the config promise
// them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libshard/check/promise.h"
#include "libshard/model/family.h"

namespace moepack {

// Patterns with {L} and, for explicit experts, {E}; everything else is spelled out, including the
// leaf.
struct PromisedRows {
  explicit PromisedRows(const Family& family);

  std::string embedding, norm, head;  // "" if the family has none
  std::string router, selection_bias, shared_gate;
  // Each has the projections of one feed-forward part: gate, up and down, or fewer.
  std::vector<std::string> experts, shared, dense;
  bool packed = false;        // experts are packed
  bool bias_row = false;      // the selection bias is a matrix of one row
  bool layer_norms = false;   // norms are called input_layernorm and post_attention_layernorm
  bool appended_mtp = false;  // blocks for multi-token prediction follow the layers
  bool own_mtp = false;       // they are numbered separately, as in "mtp.layers.{M}."
};

// Returns `pattern` with numbers for {L} and {E}.
std::string Spelled(std::string_view pattern, uint32_t layer, uint32_t expert = 0);

// The attention tensors of a family whose shapes follow from the config's sizes.

struct PromisedTensor {
  std::string name;             // after the layer: "self_attn.q_proj.weight"
  std::vector<uint64_t> shape;  // empty: the shape of ExpectedShapes
  bool f32 = false;             // F32 whatever type the others have
};

class AttentionOutline {
 public:
  // kCorrupt for fields of a wrong type.
  static Result<AttentionOutline> Read(const HfConfig& config, const Family& family,
                                       const ModelPromise& promise);

  // Returns the attention tensors of a decoder layer of the kind that the config names, without an
  // indexer if `indexer` is false; empty if the kind is unknown.
  std::vector<PromisedTensor> Of(LayerKind kind, bool indexer = true) const;

 private:
  std::vector<PromisedTensor> Standard() const;
  std::vector<PromisedTensor> Joined() const;
  std::vector<PromisedTensor> Latent(bool indexer) const;
  std::vector<PromisedTensor> Linear() const;

  struct LinearSizes {
    uint64_t key_heads = 0, value_heads = 0, key = 0, value = 0, kernel = 0;
    bool fused = false;  // Qwen3-Next joins queries, keys, values and gates
  };
  struct IndexerSizes {
    uint64_t heads = 0, size = 0;
  };

  const ModelPromise* promise_ = nullptr;
  bool has_rows_ = false;  // the family's attention is called self_attn
  // it is called attention and has one projection for queries, keys and values
  bool joined_ = false;
  bool mixers_ = false;  // some layers have something else instead
  bool biases_ = false, output_bias_ = false, sinks_ = false;
  std::string query_norm_, key_norm_;  // "" if there is none
  bool whole_norms_ = false;           // over all heads at once
  LinearSizes linear_;
  IndexerSizes indexer_;
};

}  // namespace moepack
