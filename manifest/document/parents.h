// tool.parents of the manifest: the distributions from which this one was requantized. It is kept
// in Manifest::original, like other fields that most readers do not need.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "manifest/document/manifest.h"

namespace moepack::manifest {

struct ParentRecord {
  std::string manifest_sha256;  // of its distribution.json
  RecipeRecord recipe;
};

// Returns them in the order in which they were made: the first from the source, each from the
// previous, and the distribution itself from the last. kCorrupt for a wrong structure.
Result<std::vector<ParentRecord>> ParentsOf(const Manifest& manifest);
// Adds a parent after all others.
void AddParent(const ParentRecord& parent, Manifest& manifest);

}  // namespace moepack::manifest
