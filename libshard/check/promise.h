// What a model's config promises about its tensors: sizes, kinds of layers, and what must be there.
// A value that the config does not give stays unknown (0, "" or no value) and is not checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/check/finding.h"
#include "libshard/format/gguf_metadata.h"
#include "libshard/model/config.h"
#include "libshard/model/config_layers.h"
#include "libshard/model/family.h"
#include "libshard/model/hf_config.h"

namespace moepack {

// The heads of ordinary attention.
struct HeadsPromise {
  uint64_t heads = 0, key_heads = 0, size = 0;
};

struct LayerPromise {
  std::optional<bool> moe;
  LayerKind kind = LayerKind::kUnnamed;
  // the kind in the config's words, "linear_attention" or "1", by which layers are grouped; "" if
  // it does not say
  std::string attention;
  bool indexer = true;        // where the family has indexers, the layer has its own
  uint64_t expert_width = 0;  // where layers differ in it
  std::optional<HeadsPromise> heads;
};

// The sizes of multi-head latent attention, with the names of DeepSeek's configs.
struct LatentPromise {
  uint64_t heads = 0;
  uint64_t query_rank = 0;  // 0: queries are projected directly
  uint64_t rank = 0, nope = 0, rope = 0, value = 0;
};

// The sizes of layers that mix tokens in another way than attention. Mamba-2:
struct MambaPromise {
  uint64_t heads = 0, size = 0;  // of a head
  uint64_t state = 0, groups = 0, kernel = 0;
  uint64_t inner() const { return heads * size; }
  uint64_t channels() const { return inner() + 2 * groups * state; }
};
// Linear attention: the gated delta rule (Qwen3-Next).
struct DeltaPromise {
  uint64_t key_heads = 0, value_heads = 0, key = 0, value = 0, kernel = 0;
};
// Kimi delta attention.
struct KdaPromise {
  uint64_t heads = 0, size = 0, kernel = 0;
  bool low_rank = false;  // the decay has a low rank (Kimi), not the whole width (Ling)
};

struct ModelPromise {
  uint64_t vocabulary = 0, hidden = 0;
  // the width of an expert's input: the hidden size, or a latent of another size
  uint64_t expert_input = 0;
  uint64_t expert_width = 0, dense_width = 0, shared_width = 0;
  std::vector<LayerPromise> layers;  // decoder layers
  std::string moe_key;               // the field that says which of them have experts
  bool mixers = false;               // each layer is attention or a feed-forward part, and not both
  std::string layers_key;            // the field that says how many there are
  std::optional<uint32_t> mtp;       // blocks for multi-token prediction
  std::string mtp_key = "the config";  // what says how many
  std::optional<bool> tied;            // the head is the embedding
  std::optional<bool> shared;          // layers with experts also have shared experts
  // the field that says that routers have one; "" if there is none
  std::string selection_bias_key;
  bool linear_attention = false;      // layers of kLinear have linear_attn, others self_attn
  std::optional<HeadsPromise> heads;  // if all layers have the same
  std::optional<LatentPromise> latent;
  std::optional<MambaPromise> mamba;
  std::optional<DeltaPromise> delta;
  std::optional<KdaPromise> kda;
  uint64_t short_kernel = 0;  // of short convolutions
  ConfigFacts facts;

  // 0 if it is not known.
  uint64_t ExpertWidthOf(std::optional<uint32_t> layer) const {
    const bool own = expert_width == 0 && layer && *layer < layers.size();
    return own ? layers[*layer].expert_width : expert_width;
  }
};

// The promise of config.json. `defaults` is a JSON object with the fields that the family's config
// class fills in, or "" if they are not known. Contradictions within the config (sizes that do not
// divide, lists whose length is not the number of layers) are added to `findings`. kCorrupt for
// fields of an unexpected type.
Result<ModelPromise> ReadPromise(const HfConfig& raw, std::string_view defaults,
                                 const ModelConfig& model, const Family& family,
                                 std::vector<CheckFinding>& findings);

// Whether layers of the family may have a Mamba layer or a short convolution instead of attention.
bool HasOtherMixers(const Family& family);

// The promise of a GGUF model's metadata.
ModelPromise ReadGgufPromise(const GgufMetadata& metadata, const ModelConfig& model);

// Which layers have experts and what kind of attention each has. The kinds of
// attention follow from `defaults`, those of the family, where the config does not say them.
// REQUIRES: promise.layers has one entry per decoder layer.
Status ReadLayers(const HfConfig& config, std::string_view defaults, ModelPromise& promise,
                  std::vector<CheckFinding>& findings);

}  // namespace moepack
