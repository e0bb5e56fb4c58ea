// How large the nodes of a model would be, by number of groups and by recipe: the bytes that
// `build --dry-run` comes to for the same plan.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libshard/model/model.h"
#include "libshard/recipe/quantize.h"
#include "tools/base/command.h"

namespace moepack::cli {

struct NodeSizeOptions {
  std::vector<uint32_t> groups;      // none: 2, 4, 8 and 16, as far as the experts go
  std::vector<std::string> recipes;  // none: some usual ones, if the model has a GGUF form
  ConvertOptions convert;
};

// Largest node of a distribution without overlay: the trunk and the largest group.
struct NodeSize {
  uint32_t groups = 0;
  uint64_t expert_count = 0;    // that a node holds of a layer, at most
  std::vector<uint64_t> bytes;  // one per NodeSizes::formats
};
struct NodeSizes {
  // "source": bundles that keep the source's bytes; else a recipe, in GGUF.
  std::vector<std::string> formats;
  std::vector<NodeSize> rows;
  std::vector<std::string> notes;  // what is not in the sizes, and why a format is missing
};

// Numbers of groups and recipes that the options name must be possible; default ones are left out
// where they are not. Nothing for a names-only checkpoint.
Result<NodeSizes> SizeNodes(const MoeModel& model, const NodeSizeOptions& options);

}  // namespace moepack::cli
