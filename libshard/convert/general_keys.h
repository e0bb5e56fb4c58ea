// general.*: what a model is called, how large it is, and what its makers say of it. Nothing here
// changes what a runtime computes.
#pragma once

#include <string>
#include <vector>

#include "libshard/file.h"
#include "libshard/gguf_model.h"
#include "libshard/result.h"

namespace shard {

// general.architecture and general.type, and from the folder, the front matter of README.md and
// generation_config.json what is there: general.name, .license*, .tags, .languages, .base_model.*,
// .dataset.*, .sampling.*.
Status AddGeneralKeys(const fs::path& root, std::string_view architecture, GgufMetadata& metadata);

// general.size_label: "8x1.3M", experts and the parameters of all else with one expert of each
// layer.
void AddSizeLabel(const std::vector<GgufTensor>& tensors, GgufMetadata& metadata);

// "qwen3-moe" -> "Qwen3 Moe": dashes become spaces, words in lower case get a capital; versions
// ("v0.1") and numbers stay.
std::string TitleOf(std::string_view name);

}  // namespace shard
