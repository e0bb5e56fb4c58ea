// Selects the files of a distribution to load, and checks that they match the manifest.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "libshard/base/files/source_tree.h"
#include "libshard/base/result.h"
#include "libshard/base/text/expert_ids.h"
#include "manifest/document/manifest.h"
#include "runtime-shim/model/weights.h"

namespace moepack::runtime {

using Bundles = std::vector<const manifest::BundleRecord*>;

// The files whose experts become one set.
struct SelectedSet {
  std::string label;
  std::optional<uint32_t> group;
  bool overlay = false;
  Bundles files;
  LayerExperts experts_by_layer;     // according to the plan
  std::set<uint32_t> refitted = {};  // layers in which the set has its own router rows
};

struct SelectedParts {
  Bundles head, trunk, routers;  // only GGUF distributions have head and routers
  std::vector<SelectedSet> sets;
  std::vector<std::string> notes;
};

// A distribution and the parts of it that are loaded. It must not be moved, because the selection
// points into the manifest.
struct Split {
  SourceTreePtr tree;
  std::string path;  // its name in messages
  manifest::Manifest manifest;
  SelectedParts parts;
};

// Selects the trunk, and the groups and the overlay that the options name. kNotFound, with what
// exists, for what the manifest lacks. Without a list of groups, those without files are left out
// with a note.
Status SelectParts(const LoadOptions& options, Split& split);

// Compares what is loaded (for safetensors also the assets), and the versions, with the manifest:
// sizes of files, XXH3-128 of tensors, SHA-256 of files without tensors, or of all files if the
// options say so. Uses jobs and progress of the options. kMismatch names the first difference.
Status CheckDigests(const Split& split, const LoadOptions& options);

}  // namespace moepack::runtime
