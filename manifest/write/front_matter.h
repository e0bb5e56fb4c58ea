// The YAML front matter of a model card. Format: https://huggingface.co/docs/hub/model-cards,
// section "Model card metadata".
#pragma once

#include <string>
#include <string_view>

#include "manifest/document/manifest.h"

namespace moepack::manifest {

// A double-quoted YAML scalar that reads back as Shown(text): whatever the text is, it stays one
// value on one line.
std::string YamlText(std::string_view text);

// The front matter of a distribution, with both "---" lines. It only says what the manifest knows:
// the base model if its name is a Hub id, that it is quantized if so, library and tags.
std::string FrontMatter(const Manifest& manifest);

// `readme` unchanged if it has front matter, otherwise with that of the distribution before it.
std::string WithFrontMatter(const Manifest& manifest, const std::string& readme);

}  // namespace moepack::manifest
