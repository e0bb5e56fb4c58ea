// Architectures in which some layers have experts and the others a dense feed-forward part.
#pragma once

#include <string>
#include <vector>

#include "libshard/convert/hf_family.h"

namespace moepack {

// Rows of both kinds of layers, all of them optional, since a layer has those of one kind.
struct MixedRows {
  std::string at;      // "layers.{L}.mlp."
  const char* router;  // below it: "gate"
  const char* shared;  // "shared_experts"
  bool fused = true;   // experts also as newer transformers save them (AddFusedExpertRows)
};
// {gate,up,down}_proj of a dense layer; router, experts and shared expert of the others.
void AddMixedRows(HfFamily& family, const MixedRows& rows);

// A row of one kind of layers.
void AddOptionalRow(HfFamily& family, const std::string& source, const std::string& target);
// What a block for multi-token prediction has beside a decoder layer: eh_proj, enorm, hnorm, and
// what it may have of its own beside the model's (embed_tokens, shared_head).
void AddNextTokenRows(HfFamily& family);

// first_k_dense_replace, else the leading "dense" of mlp_layer_types, else 0.
Result<uint32_t> LeadingDense(const HfConfig& config);

// Blocks that the runtime takes for layers with experts must have all kinds of tensors that it then
// needs, and none of the other kind; kCorrupt otherwise.
struct MixedLayers {
  std::vector<bool> moe;        // per block
  bool selection_bias = false;  // exp_probs_b
  bool shared = true;           // shared experts
};
Status CheckMixedLayers(const HfConfig& config, const MixedLayers& layers,
                        const std::vector<GgufTensor>& tensors);
// The same where only leading layers are dense, and blocks for multi-token prediction are not.
Status CheckLeadingDense(const HfConfig& config, const HfShape& shape, bool selection_bias,
                         const std::vector<GgufTensor>& tensors);

}  // namespace moepack
