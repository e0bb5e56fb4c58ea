// Which files of a distribution are loaded, and the proof that they are what the manifest says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libshard/base/expert_ids.h"
#include "libshard/base/result.h"
#include "libshard/base/source_tree.h"
#include "manifest/document/manifest.h"
#include "runtime-shim/model/weights.h"

namespace moepack::runtime {

using Bundles = std::vector<const manifest::BundleRecord*>;

// Files with experts that become one set.
struct SelectedSet {
  std::string label;
  int group = -1;
  bool overlay = false;
  Bundles files;
  LayerExperts experts;  // as the plan says
};

struct SelectedParts {
  Bundles head, trunk, routers;  // head and routers: of GGUF distributions
  std::vector<SelectedSet> sets;
  // false: of the trunk only headers are needed, to restore the checkpoint that it was cut from.
  bool place_trunk = true;
  std::vector<std::string> notes;
};

// A distribution and what of it is loaded. Not moved once made: the selection points into the
// manifest.
struct Split {
  SourceTreePtr tree;
  std::string path;  // what messages call it
  manifest::Manifest manifest;
  SelectedParts parts;
};

// Trunk, the groups and the overlay that are wanted. kNotFound for what the manifest does not have,
// naming what it has; without a list of groups, those that have no files are left out with a note.
Status SelectParts(const LoadOptions& options, Split& split);
// The overlay alone, with what is needed to make sense of it.
Status SelectOverlay(const std::string& version, Split& split);

// Size and SHA-256 of the files that are loaded (for safetensors also of the assets), and the
// versions, with the jobs and the progress of the options. kMismatch names the first that is not as
// the manifest says.
Status CheckDigests(const Split& split, const LoadOptions& options);

}  // namespace moepack::runtime
