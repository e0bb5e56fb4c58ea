// The parts of a distribution: which exist, what each should hold, and which are absent.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "manifest/document/manifest.h"

namespace moepack::manifest {

// A part is all files of one role; for kGroup, those of one group; for kOverlay, those of one
// version.
struct PartKey {
  Role role = Role::kTrunk;
  std::optional<uint32_t> group = std::nullopt;  // for kGroup
  std::string overlay = {};                      // version, for kOverlay
  auto operator<=>(const PartKey&) const = default;
};
PartKey PartOf(const BundleRecord& bundle);
PartKey PartOf(const OutputFile& file);

// Returns the ids that a part should hold in a layer.
ExpertIds PartExperts(const Plan& plan, const PartKey& part, uint32_t layer);
// Returns "trunk", "group 1", "overlay v1".
std::string PartText(const PartKey& part);

// Lists the parts that a complete distribution needs and that have no file here. The remainder is
// not among them, because it is only written on request.
std::vector<PartKey> AbsentParts(const Manifest& manifest);
// Lists what shard-experts --only needs to make everything that is absent, including the assets:
// "trunk", "group:1", "overlay", "assets".
std::vector<std::string> AbsentWords(const Manifest& manifest);
// Sets `complete` according to the existing parts, and `without_assets` according to whether the
// source has any.
void SetComplete(bool source_has_assets, Manifest& manifest);

}  // namespace moepack::manifest
