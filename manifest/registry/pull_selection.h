// Which layers of a set one pull needs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "manifest/registry/open_set.h"

namespace moepack::registry {

// The groups to pull: those that were asked for, each once, or that of a view. kInvalidArgument for
// one that the set does not have; `where` is the reference.
Result<std::vector<uint32_t>> ChooseGroups(const std::string& where, const OpenedSet& set,
                                           std::vector<uint32_t> asked);

// kInvalidArgument unless the set's overlay has this version; "" is satisfied by any.
Status CheckOverlayVersion(const std::string& where, const OpenedSet& set,
                           const std::string& version);

// What every node has, and of groups and overlay what was asked for; in the order of `layers`.
std::vector<BlobRecord> SelectLayers(const std::vector<BlobRecord>& layers,
                                     const std::vector<uint32_t>& groups, bool overlay);
std::vector<BlobRecord> SelectLayers(const OpenedSet& set, const std::vector<uint32_t>& groups,
                                     bool overlay);

}  // namespace moepack::registry
