// The distributions from which one was requantized: tool.parents of the manifest.
// Manifest::original carries it, like other fields that most readers need not know.
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

// In the order in which they were made: the first from the source, the distribution itself from the
// last. kCorrupt for a wrong structure.
Result<std::vector<ParentRecord>> ParentsOf(const Manifest& manifest);
// Adds the last one.
void AddParent(const ParentRecord& parent, Manifest& manifest);

}  // namespace moepack::manifest
