#include "manifest/document/asset_names.h"

#include <algorithm>
#include <array>

#include "libshard/base/files/inside_path.h"

namespace moepack::manifest {
namespace {

// Files that Hugging Face repositories keep beside the weights.
constexpr std::array<std::string_view, 13> kNames = {
    "config.json",
    "generation_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "tekken.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "preprocessor_config.json",
    "processor_config.json",
    "video_preprocessor_config.json",
    "hf_quant_config.json",
    "NOTICE",
};

struct NamePattern {
  std::string_view prefix, suffix;
};

// The Python files are the model and tokenizer code of repositories with their own.
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
  if (std::find(kNames.begin(), kNames.end(), name) != kNames.end()) return true;
  return std::any_of(kPatterns.begin(), kPatterns.end(), [&](const NamePattern& pattern) {
    return name.starts_with(pattern.prefix) && name.ends_with(pattern.suffix);
  });
}

}  // namespace moepack::manifest
