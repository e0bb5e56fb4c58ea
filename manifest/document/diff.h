// Finds what changed between two distributions, from their manifests alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "manifest/document/manifest.h"

namespace moepack::manifest {

struct Change {
  // "model", "partition", "overlay", "routing", "refit", "bundle", "tensor", "asset", "tool",
  // "other"; of nodes "model", "partition", "overlay", "refit", "distribution", "node", "file",
  // "tool"
  std::string what;
  std::string name;    // "group 1, layer 3", "trunk/trunk.safetensors", ...
  std::string before;  // "" for something new
  std::string after;   // "" for something gone
};

struct DiffReport {
  std::vector<Change> changes;  // grouped by `what`, in a fixed order
  uint64_t same_bytes =
      // bytes of B's bundles (or of a node's files) that A has with the same digest, so that they
      // need not be copied
      0;
  uint64_t changed_bytes = 0;  // bytes of B's bundles that A lacks
  bool same() const { return changes.empty(); }
};

DiffReport DiffManifests(const Manifest& a, const Manifest& b);

}  // namespace moepack::manifest
