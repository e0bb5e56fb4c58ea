// general.*: what a model is called, how large it is, and what its makers say about it. Nothing
// here changes what a runtime computes.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/source_tree.h"
#include "libshard/convert/gguf_model.h"

namespace moepack {

// What a model may be called if its card does not say. The name of the folder is not used: the same
// files give the same bytes wherever they lie.
struct ModelNames {
  std::string name_or_path;  // of config.json; counts only as an id of the Hub
  std::string family;        // of the family table: "qwen3-moe"
};

// Writes general.architecture and general.type, and whatever the names, the front matter of
// README.md and generation_config.json give of general.name, .license*, .tags, .languages,
// .base_model.*, .dataset.*, .sampling.*.
Status AddGeneralKeys(const SourceTree& tree, std::string_view architecture,
                      const ModelNames& names, GgufMetadata& metadata);

// general.size_label: "8x1.3M", experts and the parameters of all else with one expert of each
// layer.
void AddSizeLabel(const std::vector<GgufTensor>& tensors, GgufMetadata& metadata);

// "name" of "owner/name".
std::string_view NameOfId(std::string_view id);

// "qwen3-moe" -> "Qwen3 Moe": dashes become spaces, words in lower case get a capital; versions
// ("v0.1") and numbers stay.
std::string TitleOf(std::string_view name);

}  // namespace moepack
