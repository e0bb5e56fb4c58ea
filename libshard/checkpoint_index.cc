#include "libshard/checkpoint_index.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "libshard/json.h"
#include "libshard/limits.h"
#include "libshard/text.h"

namespace shard {
namespace {

constexpr uint64_t kMaxIndexBytes = 256u << 20;
constexpr std::string_view kIndexSuffix = ".safetensors.index.json";

}  // namespace

Result<std::vector<std::string>> ListFiles(const fs::path& directory, std::string_view suffix) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    std::error_code status_error;
    if (name.ends_with(suffix) && !it->is_directory(status_error)) names.push_back(std::move(name));
  }
  if (error) return Error{Code::kIo, Cat(directory.string(), ": list: ", error.message())};
  std::sort(names.begin(), names.end());
  return names;
}

bool HoldsPath(const fs::path& outer, const fs::path& inner) {
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

bool IsSafeRelativePath(std::string_view path) {
  const bool strange = std::any_of(path.begin(), path.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f || c == '\\';
  });
  if (strange || path.size() > kMaxPath || !IsUtf8(path)) return false;
  const std::vector<std::string> parts = Split(path, '/');
  return std::none_of(parts.begin(), parts.end(), [](const std::string& part) {
    return part.empty() || part == "." || part == "..";
  });
}

Result<CheckpointIndex> ReadCheckpointIndex(const fs::path& path) {
  SHARD_TRY(const Json document, ReadJsonFile(path.string(), kMaxIndexBytes));
  const JsonFields fields(document, path.string());
  SHARD_TRY(const Json* weight_map, fields.Object("weight_map"));
  CheckpointIndex index;
  index.path = path;
  std::set<std::string> shards;
  for (const auto& [tensor, file] : weight_map->items()) {
    if (!file.is_string() || !IsSafeRelativePath(file.get_ref<const std::string&>())) {
      return Error{Code::kCorrupt,
                   Cat(path.string(), ": weight_map: tensor ", Quoted(tensor),
                       ": expected a file inside the directory, found ", DescribeJson(file))};
    }
    shards.insert(file.get<std::string>());
    index.file_of.emplace(tensor, file.get<std::string>());
  }
  if (index.file_of.empty()) {
    return Error{Code::kCorrupt, Cat(path.string(), ": weight_map: expected tensors, found none")};
  }
  index.shards.assign(shards.begin(), shards.end());
  if (const auto metadata = document.find("metadata"); metadata != document.end()) {
    const auto total = metadata->is_object() ? metadata->find("total_size") : metadata->end();
    if (metadata->is_object() && total != metadata->end() && total->is_number_unsigned()) {
      index.total_size = total->get<uint64_t>();
    }
  }
  return index;
}

Result<std::optional<fs::path>> FindCheckpointIndex(const fs::path& directory) {
  SHARD_TRY(const std::vector<std::string> names, ListFiles(directory, kIndexSuffix));
  if (names.empty()) return std::optional<fs::path>();
  const std::string usual = Cat("model", kIndexSuffix);
  if (std::find(names.begin(), names.end(), usual) != names.end()) {
    return std::optional(directory / usual);
  }
  if (names.size() == 1) return std::optional(directory / names[0]);
  return Error{Code::kInvalidArgument,
               Cat(directory.string(), ": expected one *", kIndexSuffix, ", found ", names.size(),
                   ": ", Join(names, ", ")),
               "name the index file itself instead of the directory"};
}

Result<std::vector<std::string>> ListSafetensors(const fs::path& directory) {
  return ListFiles(directory, ".safetensors");
}

Status CheckInside(const fs::path& directory, const std::string& name) {
  std::error_code error;
  const fs::path file = directory / name;
  const fs::path real_directory = fs::canonical(directory, error);
  const fs::path real = fs::canonical(file, error);
  if (error) return Error{Code::kNotFound, Cat(file.string(), ": ", error.message())};
  if (HoldsPath(real_directory, real)) return Ok();
  // models--owner--name/snapshots/<revision>/file -> ../../blobs/<digest>: the cache of
  // huggingface_hub.
  const fs::path snapshots = real_directory.parent_path();
  if (snapshots.filename() == "snapshots" && HoldsPath(snapshots.parent_path() / "blobs", real)) {
    return Ok();
  }
  return Error{Code::kCorrupt, Cat(file.string(), ": expected a file inside ", directory.string(),
                                   ", found a link to ", real.string())};
}

}  // namespace shard
