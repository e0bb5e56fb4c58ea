#include "manifest/write/assets.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "libshard/base/digest.h"
#include "libshard/base/inside_path.h"
#include "libshard/base/text.h"

namespace manifest {
namespace {

using shard::Cat;
using shard::Code;
using shard::Error;

// What Hugging Face repositories keep beside the weights.
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

// The Python files are the model and tokenizer code of repositories that bring their own.
constexpr std::array kPatterns = {
    NamePattern{"tokenizer", ".json"}, NamePattern{"tokenizer", ".model"},
    NamePattern{"tiktoken", ".model"}, NamePattern{"chat_template", ".json"},
    NamePattern{"", ".jinja"},         NamePattern{"configuration_", ".py"},
    NamePattern{"modeling_", ".py"},   NamePattern{"tokenization_", ".py"},
    NamePattern{"processing_", ".py"}, NamePattern{"image_processing_", ".py"},
    NamePattern{"LICENSE", ""},        NamePattern{"LICENCE", ""},
    NamePattern{"NOTICE.", ""},
};

// What a runtime, or a reader of a node, takes for something else by its end.
constexpr std::array<std::string_view, 4> kOtherEnds = {".index.json", ".safetensors", ".gguf",
                                                        ".bin"};

}  // namespace

bool IsAssetName(std::string_view name) {
  const bool other = std::any_of(kOtherEnds.begin(), kOtherEnds.end(),
                                 [&](std::string_view end) { return name.ends_with(end); });
  if (other || name.find('/') != name.npos || !shard::IsSafeRelativePath(name)) return false;
  if (std::find(kNames.begin(), kNames.end(), name) != kNames.end()) return true;
  return std::any_of(kPatterns.begin(), kPatterns.end(), [&](const NamePattern& pattern) {
    return name.starts_with(pattern.prefix) && name.ends_with(pattern.suffix);
  });
}

Result<std::vector<Asset>> ListAssets(const shard::SourceTree& checkpoint) {
  SHARD_TRY(const std::vector<std::string> names, checkpoint.List("", ""));
  std::vector<Asset> assets;
  for (const std::string& name : names) {
    if (!IsAssetName(name)) continue;
    SHARD_TRY(const shard::ByteSourcePtr source, checkpoint.Open(name));
    if (source->size() <= kMaxAssetBytes) assets.push_back({name, source->size()});
  }
  return assets;
}

Result<std::vector<AssetRecord>> CopyAssets(const AssetFolder& from, shard::StagingDirectory& to,
                                            const std::vector<Asset>& assets) {
  std::vector<AssetRecord> records;
  for (const Asset& asset : assets) {
    const std::string file = Cat(kAssetDirectory, asset.name);
    const std::string source = Cat(from.folder, asset.name);
    SHARD_TRY(const std::string text, from.tree.ReadText(source, kMaxAssetBytes));
    if (text.size() != asset.size) {
      return Error{Code::kCorrupt,
                   Cat(from.tree.NameOf(source), ": file size: expected ", asset.size,
                       " bytes as before, found ", text.size()),
                   "the file was changed meanwhile: run the command again"};
    }
    SHARD_CHECK(to.WriteText(file, text));
    records.push_back({file, asset.size, shard::Sha256Hex(text)});
  }
  return records;
}

}  // namespace manifest
