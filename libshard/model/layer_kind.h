// What mixes the tokens in each layer of a model. One table knows the words by which configs name
// it; check, fit and conversion ask it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/model/hf_config.h"
#include "libshard/model/layer_list.h"

namespace moepack {

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

}  // namespace moepack
