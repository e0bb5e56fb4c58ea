// What families have in common whose layers are not all alike: some have experts and others a dense
// feed-forward part, or some attend only to the last tokens or mix tokens in another way.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/convert/base_keys.h"
#include "libshard/convert/hf_family.h"
#include "libshard/graph/model_spec.h"
#include "libshard/model/config_layers.h"

namespace moepack {

// Rows for both kinds of layers. All are optional, because a layer has only those of its kind.
struct MixedRows {
  std::string at;      // "layers.{L}.mlp."
  const char* router;  // below it: "gate"
  const char* shared;  // "shared_experts"
  bool fused = true;   // experts can also be as newer transformers save them (AddFusedExpertRows)
  bool one_gate_up = false;  // gate and up of those stay one tensor
};
// {gate,up,down}_proj of a dense layer; router, experts and shared expert of the others.
void AddMixedRows(HfFamily& family, const MixedRows& rows);

// Adds a row that only one kind of layer has.
void AddOptionalRow(HfFamily& family, const std::string& source, const std::string& target);
// What a block for multi-token prediction has in addition to a decoder layer: eh_proj, enorm,
// hnorm, and its own copies of embed_tokens and shared_head, if any.
void AddNextTokenRows(HfFamily& family);

// Which layers have experts, as the config says (config_layers.h); all if it does not. kCorrupt if
// it contradicts itself.
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
  bool selection_bias = false;  // bias_name
  bool shared = true;           // shared experts
  const char* bias_name = "exp_probs_b.bias";
};
Status CheckMixedLayers(const HfConfig& config, const MixedLayers& layers,
                        const std::vector<GgufTensor>& tensors);
// Those of models where only the leading layers are dense, and blocks for multi-token prediction
// are not; and their check.
Result<MixedLayers> LeadingDenseLayers(const HfConfig& config, const HfShape& shape);
Status CheckLeadingDense(const HfConfig& config, const HfShape& shape, bool selection_bias,
                         const std::vector<GgufTensor>& tensors);

// Limits of gated activations, one number per block; 0 means none, and so does null in a config.
// Adds nothing if the config does not have `field`.
Status AddLimits(const HfConfig& config, const HfShape& shape, const char* field, const char* key,
                 ArchKeys& keys);
void ReadLimits(SpecKeys& keys, const char* key, float LayerSpec::*limit, ModelSpec& spec);

// What the families have in common in which some layers attend only to the last tokens.

// Which blocks have a window; kUnsupported for any kind of layer but that and full attention.
Result<std::vector<bool>> ReadWindowed(const HfConfig& config, const HfShape& shape,
                                       ConfigKeys field);

// One number per block: `window` in those with a window, and `full` in the others.
std::vector<int32_t> ByWindow(const std::vector<bool>& windowed, uint32_t window, uint32_t full);

// Runtimes in which one layer of each `period` has full attention, its last or its first, and the
// others have a window: kUnsupported, naming the field and the layer, if the config names others.
// A config that names no kinds has those.
Status CheckWindowPeriod(const HfConfig& config, const HfShape& shape, uint32_t period,
                         bool full_first = false);

// Adds attention.sliding_window.
Status AddWindowKey(const HfConfig& config, ArchKeys& keys);

// Sets the windows of a model to be run: those of the list attention.sliding_window_pattern, where
// the runtime reads one, or of all layers but the last of each period; none without a window.
struct WindowRule {
  uint32_t period = 0;
  bool reads_pattern = false;
};
void FillWindows(SpecKeys& keys, const WindowRule& rule, ModelSpec& spec);

// kCorrupt, naming the field, unless so many heads can share so many key heads.
Status CheckKeyHeads(const HfConfig& config, ConfigKeys field, uint32_t heads, uint32_t key_heads);

// What mixes the tokens in each block of a GGUF (config_layers.h), checked against what the
// runtime's graph can hold.

// How many entries a list in the config may have.
Result<BlockCounts> CountBlocks(const HfConfig& config, const HfShape& shape);

// Reads the kind of each block. Blocks for multi-token prediction that no list names have full
// attention, as in llama.cpp's converter. kCorrupt if the config names no kinds, as it should under
// `field`, or contradicts itself; kUnsupported, naming it, for a kind that is not one of `known`.
Result<std::vector<LayerKind>> ReadBlockKinds(const HfConfig& config, const HfShape& shape,
                                              ConfigKeys field,
                                              std::initializer_list<LayerKind> known);

// The tensors, named as after "blk.N.", that the runtime requires in layers of one kind and reads
// in no other.
struct KindTensors {
  LayerKind kind;
  std::vector<const char*> names;
};
// kCorrupt unless each block has the tensors of its kind and none of another kind's.
Status CheckKindTensors(const HfConfig& config, const std::vector<LayerKind>& kinds,
                        const std::vector<KindTensors>& rows,
                        const std::vector<GgufTensor>& tensors);

// Returns kUnsupported if the config names anything but full attention, for architectures whose
// runtime supports nothing else.
Status CheckFullAttention(const HfConfig& config, const HfShape& shape);

}  // namespace moepack
