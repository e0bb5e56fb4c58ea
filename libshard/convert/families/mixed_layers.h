// Architectures in which some layers have experts and the others have a dense feed-forward part.
#pragma once

#include <string>
#include <vector>

#include "libshard/convert/hf_family.h"

namespace moepack {

// Rows for both kinds of layers. All are optional, because a layer has only those of its kind.
struct MixedRows {
  std::string at;      // "layers.{L}.mlp."
  const char* router;  // below it: "gate"
  const char* shared;  // "shared_experts"
  bool fused = true;   // experts can also be as newer transformers save them (AddFusedExpertRows)
};
// {gate,up,down}_proj of a dense layer; router, experts and shared expert of the others.
void AddMixedRows(HfFamily& family, const MixedRows& rows);

// Adds a row that only one kind of layer has.
void AddOptionalRow(HfFamily& family, const std::string& source, const std::string& target);
// What a block for multi-token prediction has in addition to a decoder layer: eh_proj, enorm,
// hnorm, and its own copies of embed_tokens and shared_head, if any.
void AddNextTokenRows(HfFamily& family);

// first_k_dense_replace, otherwise the number of leading "dense" entries of mlp_layer_types,
// otherwise 0.
Result<uint32_t> LeadingDense(const HfConfig& config);

// Blocks that the runtime treats as layers with experts must have all the tensors it then needs,
// and none of the other kind; kCorrupt otherwise.
struct MixedLayers {
  std::vector<bool> moe;        // per block
  bool selection_bias = false;  // exp_probs_b
  bool shared = true;           // shared experts
};
Status CheckMixedLayers(const HfConfig& config, const MixedLayers& layers,
                        const std::vector<GgufTensor>& tensors);
// The same for models where only the leading layers are dense, and blocks for multi-token
// prediction are not.
Status CheckLeadingDense(const HfConfig& config, const HfShape& shape, bool selection_bias,
                         const std::vector<GgufTensor>& tensors);

}  // namespace moepack
