// Architectures in which some layers have experts and the others have a dense feed-forward part.
#pragma once

#include <string>
#include <vector>

#include "libshard/convert/hf_family.h"
#include "libshard/model/moe_layers.h"

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

// Which layers have experts, as the config says (moe_layers.h); all if it does not. kCorrupt if it
// contradicts itself.
Result<MoeLayers> LayersWithExperts(const HfConfig& config, const HfShape& shape);
// The layers that have experts in the runtime: those from `first` on whose number plus 1 is a
// multiple of `step`.
struct MoeRule {
  uint32_t first = 0, step = 1;
};
// The same for a runtime with such a rule: kUnsupported, naming the field and the layer, if the
// config says something else. REQUIRES: rule.step > 0.
Result<std::vector<bool>> LayersByRule(const HfConfig& config, const HfShape& shape,
                                       const MoeRule& rule);
// The number of dense layers before the first one with experts, for runtimes in which all others
// have experts; kUnsupported if some of those are dense.
Result<uint32_t> LeadingDense(const HfConfig& config, const HfShape& shape);

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
