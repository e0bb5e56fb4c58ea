// Reads the front matter of a model card, the README.md of the Hugging Face Hub. Format:
// https://huggingface.co/docs/hub/model-cards, section "Model card metadata".
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/files/source_tree.h"
#include "libshard/base/result.h"

namespace moepack {

// Top-level keys with a scalar or a list of scalars, all as text: `no` is Norwegian, not a boolean.
// Bytes that are not UTF-8 are escaped as in \xff. Nested maps and block text are left out.
using ModelCard = std::map<std::string, std::vector<std::string>, std::less<>>;

// Reads the lines between the first two "---"; empty if there are none. Understands the simple YAML
// used in cards, and skips what it does not understand, because a card is not part of the model.
ModelCard ParseModelCard(std::string_view text);
// Reads README.md of a model; empty if there is none.
Result<ModelCard> ReadModelCard(const SourceTree& tree);

}  // namespace moepack
