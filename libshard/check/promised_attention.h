// The attention tensors of a family whose shapes follow from the config's sizes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "libshard/check/promise.h"

namespace moepack {

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

  // Returns the attention tensors of a decoder layer of the kind that the config names; empty if
  // the kind is unknown.
  std::vector<PromisedTensor> Of(LayerKind kind) const;

 private:
  std::vector<PromisedTensor> Standard() const;
  std::vector<PromisedTensor> Joined() const;
  std::vector<PromisedTensor> Latent() const;
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
