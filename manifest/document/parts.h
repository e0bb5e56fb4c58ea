// The parts of a distribution: which there are, what each should hold, and which are absent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "manifest/document/manifest.h"

namespace moepack::manifest {

// A part is all files of one role; of role kGroup, those of one group. Only that role has a group.
using PartKey = std::pair<Role, std::optional<uint32_t>>;

// Returns the ids that a part should hold in a layer.
ExpertIds PartExperts(const Plan& plan, Role role, std::optional<uint32_t> group, uint32_t layer);
// Returns "trunk", "group 1", "overlay".
std::string PartText(Role role, std::optional<uint32_t> group);

// Lists the parts without which a distribution is not complete and that have no file here. The
// remainder is not among them, since it is written only on request.
std::vector<PartKey> AbsentParts(const Manifest& manifest);
// Lists what shard-experts --only takes to make everything that is absent, the assets too: "trunk",
// "group:1", "overlay", "assets".
std::vector<std::string> AbsentWords(const Manifest& manifest);
// Sets `complete` by the parts that are there, and `without_assets` by whether the source has any.
void SetComplete(bool source_has_assets, Manifest& manifest);

}  // namespace moepack::manifest
