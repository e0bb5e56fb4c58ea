// The differences between two manifests, and what a node must fetch to get from one to the other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "manifest/document/diff.h"
#include "manifest/registry/artifact/reference.h"
#include "manifest/registry/open_store.h"

namespace moepack::registry {

struct SetDiff {
  // As for two distributions: annotations of the manifests, and layers by path. The bytes are those
  // of the second's layers that the first has or lacks, whatever their paths.
  manifest::DiffReport report;
  // Layers by their digests.
  uint64_t added = 0, removed = 0, shared = 0;
  // Trunk and groups are the same bytes; at most the overlay differs.
  bool same_base = false;
  struct Node {
    uint32_t group = 0;
    uint64_t bytes = 0;        // of a node of the second
    uint64_t fetch_bytes = 0;  // how much of it a node of the same group of the first lacks
  };
  std::vector<Node> nodes;  // of the groups that the second has
};

// Reads both manifests, of ModelPack artifacts, and nothing else. `group`: only its node, which the
// second must have (kInvalidArgument).
Result<SetDiff> DiffSets(const Reference& a, const Reference& b, std::optional<uint32_t> group,
                         const StoreAccess& access);

}  // namespace moepack::registry
