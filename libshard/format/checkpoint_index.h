// model.safetensors.index.json: the list of shards, and the shard in which each tensor should be.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libshard/base/files/file.h"
#include "libshard/base/files/source_tree.h"
#include "libshard/base/result.h"

namespace moepack {

struct CheckpointIndex {
  fs::path path;                    // what messages call it
  std::vector<std::string> shards;  // distinct, sorted
  // Tensor and index into shards, in the order of the file; names are distinct.
  std::vector<std::pair<std::string, uint32_t>> file_of;
  std::optional<uint64_t> total_size;  // metadata.total_size
};

// Parses the index `file` of a tree. Shard names must be relative paths without "." or ".." parts.
Result<CheckpointIndex> ReadCheckpointIndex(const SourceTree& tree, const std::string& file);

// Returns model.safetensors.index.json, or else the only *.safetensors.index.json of the tree; no
// value if the tree has no index.
Result<std::optional<std::string>> FindCheckpointIndex(const SourceTree& tree);

}  // namespace moepack
