// Which layers of a set one pull needs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "manifest/registry/open_set.h"

namespace moepack::registry {

// The groups to pull: the requested ones, each once, or that of a view. kInvalidArgument for one
// that the set does not have; `where` is the reference.
Result<std::vector<uint32_t>> ChooseGroups(const std::string& where, const OpenedSet& set,
                                           std::vector<uint32_t> asked);
// "group 1", "groups 0, 2".
std::string GroupsText(const std::vector<uint32_t>& groups);

// Which overlay a node gets: its version, "" if the set has none; nullopt for a node without an
// overlay.
using OverlayChoice = std::optional<std::string>;
// The requested overlay; "" requests the current one. kInvalidArgument for one that the set does
// not have.
Result<OverlayChoice> ChooseOverlay(const std::string& where, const OpenedSet& set,
                                    const std::string& version);
// The current overlay of a set or view, as its annotations say.
OverlayChoice CurrentOverlay(const OciManifest& oci);

// What every node has, plus the requested groups and overlay; in the order of `layers`.
std::vector<BlobRecord> SelectLayers(const std::vector<BlobRecord>& layers,
                                     const std::vector<uint32_t>& groups,
                                     const OverlayChoice& overlay);

}  // namespace moepack::registry
