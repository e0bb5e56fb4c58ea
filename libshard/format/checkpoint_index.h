// model.safetensors.index.json and the files of a directory: which shards there are and where every
// tensor should be.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/file.h"
#include "libshard/base/result.h"

namespace shard {

struct CheckpointIndex {
  fs::path path;                            // of the index file
  std::vector<std::string> shards;          // distinct, sorted
  std::map<std::string, uint32_t> file_of;  // tensor -> index into shards
  std::optional<uint64_t> total_size;       // metadata.total_size

  const std::string* FileOf(const std::string& tensor) const;  // null: no entry
};

// Parses the index. Shard names must be relative paths without "." or ".." parts.
Result<CheckpointIndex> ReadCheckpointIndex(const fs::path& path);

// model.safetensors.index.json, or the only *.safetensors.index.json of the directory; none if
// there is none.
Result<std::optional<fs::path>> FindCheckpointIndex(const fs::path& directory);

// Names of the regular files (or links to some) directly in `directory` that end in `suffix`,
// sorted.
Result<std::vector<std::string>> ListFiles(const fs::path& directory, std::string_view suffix);
// Those that end in .safetensors.
Result<std::vector<std::string>> ListSafetensors(const fs::path& directory);

// kCorrupt unless `name`, symlinks followed, stays inside `directory` (or inside the blobs of the
// Hugging Face cache that `directory` is a snapshot of). kNotFound if it is not there.
Status CheckInside(const fs::path& directory, const std::string& name);

// `outer` is `inner` or one of the directories around it. REQUIRES: both are canonical.
bool HoldsPath(const fs::path& outer, const fs::path& inner);

// True for a relative path with '/' between parts, none of them empty, "." or "..", of UTF-8
// without '\\' and control characters and not longer than kMaxPath: what a manifest can name.
bool IsSafeRelativePath(std::string_view path);

}  // namespace shard
