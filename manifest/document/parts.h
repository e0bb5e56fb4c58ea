// The parts of a distribution: which there are, what each should hold, and which are absent.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "manifest/document/manifest.h"

namespace moepack::manifest {

// A part is all files of one role; of role kGroup, those of one group; of role kOverlay, those of
// one version.
struct PartKey {
  Role role = Role::kTrunk;
  std::optional<uint32_t> group = std::nullopt;  // of kGroup
  std::string overlay = {};                      // version, of kOverlay
  auto operator<=>(const PartKey&) const = default;
};
PartKey PartOf(const BundleRecord& bundle);
PartKey PartOf(const OutputFile& file);

// Returns the ids that a part should hold in a layer.
ExpertIds PartExperts(const Plan& plan, const PartKey& part, uint32_t layer);
// Returns "trunk", "group 1", "overlay v1".
std::string PartText(const PartKey& part);

// Lists the parts without which a distribution is not complete and that have no file here. The
// remainder is not among them, since it is written only on request.
std::vector<PartKey> AbsentParts(const Manifest& manifest);
// Lists what shard-experts --only takes to make everything that is absent, the assets too: "trunk",
// "group:1", "overlay", "assets".
std::vector<std::string> AbsentWords(const Manifest& manifest);
// Sets `complete` by the parts that are there, and `without_assets` by whether the source has any.
void SetComplete(bool source_has_assets, Manifest& manifest);

}  // namespace moepack::manifest
