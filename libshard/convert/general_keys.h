// Writes general.*: a model's name and size, and what its authors say about it. Nothing here
// changes what a runtime computes.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/files/source_tree.h"
#include "libshard/base/result.h"
#include "libshard/convert/gguf_model.h"

namespace moepack {

// Names for a model whose card gives none. The name of the folder is not used, so that the same
// files give the same bytes wherever they are.
struct ModelNames {
  std::string name_or_path;  // of config.json; counts only if it is a Hub id
  std::string family;        // of the family table: "qwen3-moe"
};

// Writes general.architecture and general.type. Also writes general.name, .license*, .tags,
// .languages, .base_model.*, .dataset.* and .sampling.*, as far as the names, the front matter of
// README.md and generation_config.json provide them.
Status AddGeneralKeys(const SourceTree& tree, std::string_view architecture,
                      const ModelNames& names, GgufMetadata& metadata);

// Adds general.size_label, such as "8x1.3M": the number of experts, and the parameters of
// everything else plus one expert of each layer.
void AddSizeLabel(const std::vector<GgufTensor>& tensors, GgufMetadata& metadata);

// Returns "name" for "owner/name".
std::string_view NameOfId(std::string_view id);

// Turns "qwen3-moe" into "Qwen3 Moe": dashes become spaces, and words in lower case get a capital.
// Versions ("v0.1") and numbers stay.
std::string TitleOf(std::string_view name);

}  // namespace moepack
