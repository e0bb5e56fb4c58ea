// What each node of a distribution holds: experts per layer and bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libshard/base/text/json.h"
#include "libshard/pack/slice.h"
#include "libshard/plan/plan.h"
#include "manifest/document/manifest.h"

namespace moepack::cli {

// Layers may differ; both ends are equal if they do not.
struct CountRange {
  uint64_t least = 0, most = 0;
};

struct NodeExperts {
  CountRange owned, fill, overlay, eligible;  // per layer; with the current overlay and its fill
};
NodeExperts CountNodeExperts(const Plan& plan, size_t group);

// The sizes of the files of every part, for overlays the current one; groups that were not written
// are 0.
struct PartBytes {
  uint64_t trunk = 0, overlay = 0, remainder = 0;
  std::vector<uint64_t> groups;
  uint64_t Node(size_t group) const { return trunk + overlay + groups[group]; }
};
PartBytes BytesOfFiles(const std::vector<OutputFile>& files, const Plan& plan);
PartBytes BytesOfManifest(const manifest::Manifest& manifest);

// One line per node. Without `bytes` (a names-only checkpoint) sizes are "-".
std::string NodeTable(const Plan& plan, const PartBytes* bytes);
moepack::Json NodesToJson(const Plan& plan, const PartBytes* bytes);

}  // namespace moepack::cli
