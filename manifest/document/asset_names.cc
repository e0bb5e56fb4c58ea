#include "manifest/document/asset_names.h"

#include <algorithm>
#include <array>

#include "libshard/base/files/beside_weights.h"
#include "libshard/base/files/inside_path.h"

namespace moepack::manifest {
namespace {

struct NamePattern {
  std::string_view prefix, suffix;
};

// Assets besides those that kBesideWeights names. The Python files are the model and tokenizer code
// of repositories with their own.
constexpr std::array kPatterns = {
    NamePattern{"tokenizer", ".json"},
    NamePattern{"tokenizer", ".model"},
    NamePattern{"tiktoken", ".model"},
    NamePattern{"", ".tiktoken"},
    NamePattern{"chat_template", ".json"},
    NamePattern{"", ".jinja"},
    NamePattern{"configuration_", ".py"},
    NamePattern{"modeling_", ".py"},
    NamePattern{"tokenization_", ".py"},
    NamePattern{"processing_", ".py"},
    NamePattern{"image_processing_", ".py"},
    NamePattern{"LICENSE", ""},
    NamePattern{"LICENCE", ""},
    NamePattern{"NOTICE.", ""},
};

// Endings that make a runtime, or a reader of a node, treat a file as weights or an index.
constexpr std::array<std::string_view, 4> kOtherEnds = {".index.json", ".safetensors", ".gguf",
                                                        ".bin"};

}  // namespace

bool IsAssetName(std::string_view name) {
  const bool other = std::any_of(kOtherEnds.begin(), kOtherEnds.end(),
                                 [&](std::string_view end) { return name.ends_with(end); });
  if (other || name.find('/') != name.npos || !IsSafeRelativePath(name)) return false;
  const auto beside = std::find_if(kBesideWeights.begin(), kBesideWeights.end(),
                                   [&](const BesideWeights& row) { return row.name == name; });
  if (beside != kBesideWeights.end()) return beside->asset;
  return std::any_of(kPatterns.begin(), kPatterns.end(), [&](const NamePattern& pattern) {
    return name.starts_with(pattern.prefix) && name.ends_with(pattern.suffix);
  });
}

}  // namespace moepack::manifest
