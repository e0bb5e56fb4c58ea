// How large the nodes of a model would be, by number of groups and by recipe: the bytes that `build
// --dry-run` computes for the same plan.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libshard/model/model.h"
#include "libshard/recipe/quantize.h"
#include "tools/base/command.h"

namespace moepack::cli {

struct NodeSizeOptions {
  std::vector<uint32_t> groups;      // empty: 2, 4, 8 and 16, as far as there are enough experts
  std::vector<std::string> recipes;  // empty: some usual ones, if the model has a GGUF form
  ConvertOptions convert;
  bool partial = false;  // of a config alone whose tensors are not all known (PromisedModel)
};

// Largest node of a distribution without overlay: the trunk and the largest group.
struct NodeSize {
  uint32_t groups = 0;
  uint64_t expert_count = 0;    // the most that a node holds in a layer
  std::vector<uint64_t> bytes;  // one per NodeSizes::formats
};
struct NodeSizes {
  // "source": bundles that keep the source's bytes; otherwise a recipe, in GGUF.
  std::vector<std::string> formats;
  std::vector<NodeSize> rows;
  std::vector<std::string> notes;  // what the sizes do not include, and why a format is missing
};

// Numbers of groups and recipes that the options name must be possible; impossible defaults are
// left out. Empty for a names-only checkpoint.
Result<NodeSizes> SizeNodes(const MoeModel& model, const NodeSizeOptions& options);

}  // namespace moepack::cli
