// What a config says about each layer: lists with an entry per layer, what mixes the tokens, and
// which layers have experts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/model/hf_config.h"

namespace moepack {

// A contradiction within a config.
struct ConfigFault {
  std::string field;  // "text_config.layer_types"
  std::string expected, found;
  bool operator==(const ConfigFault&) const = default;
};
using ConfigFaults = std::vector<ConfigFault>;

// Adds a fault that is not among them yet: lists of whole layers are read twice, for experts and
// for attention.
void AddFault(ConfigFaults& faults, ConfigFault fault);
// Ok, or the first fault as kCorrupt.
Status CheckFaults(const HfConfig& config, const ConfigFaults& faults);

struct BlockCounts {
  size_t layers = 0;  // decoder layers
  size_t mtp = 0;     // announced blocks for multi-token prediction
};

struct LayerList {
  std::string field;                 // its path
  std::vector<std::string> entries;  // numbers as they are written
};

// Returns the entries of a list: one per layer, and possibly one per announced block after those.
// No value when the field is absent or a number, and when its type, its length or an entry is
// wrong, which is a fault. With `letters`, a string is a list of its letters.
std::optional<LayerList> ReadLayerList(const HfConfig& config, ConfigKeys keys,
                                       const BlockCounts& counts, ConfigFaults& faults,
                                       bool letters = false);

// Reads the distance, in layers, between two layers of a kind. No value if it is absent, or 0,
// which is a fault.
Result<std::optional<uint32_t>> ReadLayerStep(const HfConfig& config, ConfigKeys keys,
                                              ConfigFaults& faults);

// What mixes the tokens in each layer of a model. One table knows the words by which configs name
// it; check, fit and conversion ask it.

enum class LayerKind : uint8_t {
  kUnnamed,      // the config does not say
  kFull,         // attention to the whole session
  kWindow,       // attention to the last tokens
  kChunked,      // attention within a chunk of tokens
  kLinear,       // linear attention (a gated delta net), which keeps a state
  kMamba,        // a state-space layer
  kConvolution,  // a short convolution
  kExperts,      // nothing: the layer is experts alone
  kDense,        // nothing: the layer is a dense feed-forward part alone
  kOther,        // something that the table does not know, or two lists that disagree
};

// "full_attention": the word that layer_types has for it, or would have.
std::string_view LayerKindName(LayerKind kind);
// The kind that an entry of fields::kBlockKinds names: "M" and "mamba" are the same.
LayerKind KindOfBlock(std::string_view word);

struct NamedKind {
  LayerKind kind = LayerKind::kUnnamed;
  // "linear_attention" or "1", as in the config; the name of the kind where it follows from an
  // interval; "" if the config names none.
  std::string words;
};

struct LayerKinds {
  std::string field;              // the path of the field that says it; "" if none does
  std::vector<NamedKind> layers;  // and after those the announced blocks that lists name
};

// Reads the lists with an entry per layer, the interval of Qwen's hybrid models and the period of
// Jamba. `config` should have the defaults of the family (config_defaults.h), as a model can leave
// the interval out. kCorrupt for fields of a wrong type.
Result<LayerKinds> ReadLayerKinds(const HfConfig& config, const BlockCounts& counts,
                                  ConfigFaults& faults);

// Which layers have an indexer of their own, as the words "full" and "shared" of indexer_types say;
// the others use what the last such layer before them picked (GLM-5.2). Empty if the field is
// absent: then all have one. Any other word, and a first layer without one, is a fault.
std::vector<bool> ReadIndexers(const HfConfig& config, const BlockCounts& counts,
                               ConfigFaults& faults);

// Which layers of a model have experts, as its config says. Configs say this in many ways: by a
// list with an entry per layer, a list of layer numbers, or numbers from which it follows.

struct MoeLayers {
  std::string key;        // the name of the field that says it, "moe_layer_freq"; "" if none does
  bool mixers = false;    // each layer is attention or a feed-forward part, and not both
  std::vector<bool> moe;  // of every decoder layer; empty if no field says it
};

// kCorrupt for fields of a wrong type.
Result<MoeLayers> ReadMoeLayers(const HfConfig& config, const BlockCounts& counts,
                                ConfigFaults& faults);

}  // namespace moepack
