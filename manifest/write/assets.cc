#include "manifest/write/assets.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>

#include "libshard/base/descriptor.h"
#include "libshard/base/digest.h"
#include "libshard/base/text.h"
#include "libshard/format/checkpoint_index.h"

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

Result<std::vector<Asset>> ListAssets(const shard::fs::path& directory) {
  std::error_code error;
  std::vector<Asset> assets;
  for (shard::fs::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    const shard::fs::directory_entry& entry = *it;
    std::error_code status_error;
    const std::string name = entry.path().filename().string();
    if (!IsAssetName(name)) continue;
    SHARD_CHECK(shard::IsThere(entry.path()));
    if (!entry.is_regular_file(status_error)) continue;
    SHARD_CHECK(shard::CheckInside(directory, name));
    const uint64_t size = entry.file_size(status_error);
    if (status_error) return shard::IoError(entry.path(), "size", status_error.value());
    if (size <= kMaxAssetBytes) assets.push_back({name, size});
  }
  if (error) return Error{Code::kIo, Cat(directory.string(), ": list: ", error.message())};
  std::sort(assets.begin(), assets.end(),
            [](const Asset& a, const Asset& b) { return a.name < b.name; });
  return assets;
}

Result<std::vector<AssetRecord>> CopyAssets(const shard::fs::path& from,
                                            shard::StagingDirectory& to,
                                            const std::vector<Asset>& assets) {
  std::vector<AssetRecord> records;
  for (const Asset& asset : assets) {
    const std::string file = Cat(kAssetDirectory, asset.name);
    SHARD_TRY(const std::string text, shard::ReadTextFile(from / asset.name, kMaxAssetBytes));
    if (text.size() != asset.size) {
      return Error{Code::kCorrupt,
                   Cat((from / asset.name).string(), ": file size: expected ", asset.size,
                       " bytes as before, found ", text.size()),
                   "the file was changed meanwhile: run the command again"};
    }
    SHARD_CHECK(to.WriteText(file, text));
    records.push_back({file, asset.size, shard::Sha256Hex(text)});
  }
  return records;
}

}  // namespace manifest
