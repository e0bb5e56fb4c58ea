#include "runtime-shim/load/part_selection.h"

#include <algorithm>

#include "libshard/base/files/file.h"
#include "libshard/base/text/text.h"
#include "manifest/document/group_range.h"
#include "manifest/document/use_overlay.h"

namespace moepack::runtime {

namespace {

constexpr const char* kOnlyHint =
    "this distribution holds only some parts; add them with shard-experts --only";

Bundles FilesOf(const manifest::Manifest& manifest, Role role,
                std::optional<uint32_t> group = std::nullopt) {
  Bundles files;
  for (const manifest::BundleRecord& bundle : manifest.bundles) {
    if (bundle.role == role && bundle.group == group) files.push_back(&bundle);
  }
  return files;
}

Error Absent(const Split& split, const std::string& part) {
  return Error{Code::kNotFound,
               Cat(split.path, ": ", part, ": expected a file in the manifest, found none"),
               kOnlyHint};
}

// Also true for a group without experts, which has no file.
bool IsThere(const Split& split, uint32_t group) {
  const GroupPlan& plan = split.manifest.plan.groups[group];
  return CountIds(HeldBy(plan)) == 0 || !FilesOf(split.manifest, Role::kGroup, group).empty();
}

ExpertIds GroupsThere(const Split& split) {
  ExpertIds groups;
  for (uint32_t group = 0; group < split.manifest.plan.groups.size(); ++group) {
    if (IsThere(split, group)) groups.push_back(group);
  }
  return groups;
}

std::set<uint32_t> RefittedLayers(const Split& split, uint32_t group) {
  std::set<uint32_t> layers;
  if (!split.manifest.refit) return layers;
  for (const RefitOutcome& outcome : split.manifest.refit->outcomes)
    if (outcome.accepted && outcome.group == group) layers.insert(outcome.layer);
  return layers;
}

Status SelectGroups(std::vector<uint32_t> wanted, Split& split) {
  const ExpertIds there = GroupsThere(split);
  const Plan& plan = split.manifest.plan;
  for (const uint32_t group : wanted)
    SHARD_CHECK(manifest::CheckGroup(split.path, group, plan.groups.size()));
  if (there.empty()) return Absent(split, "groups");
  if (wanted.empty()) wanted = there;
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  for (const uint32_t group : wanted) {
    if (!Contains(there, group)) {
      return Error{Code::kNotFound,
                   Cat(split.path, ": group: expected ", FormatChoice(there), ", found ", group),
                   kOnlyHint};
    }
    split.parts.sets.push_back({Cat("group ", group), group, false,
                                FilesOf(split.manifest, Role::kGroup, group),
                                HeldBy(plan.groups[group]), RefittedLayers(split, group)});
  }
  for (uint32_t group = 0; group < plan.groups.size(); ++group) {
    if (IsThere(split, group)) continue;
    split.parts.notes.push_back(Cat("group ", group, " is not in this distribution"));
  }
  return Ok();
}

// An overlay's directory is named after its version.
bool HasOverlayDirectory(const Split& split, const std::string& version) {
  const auto files = split.tree->List(Cat("overlays/", version), "");
  return files && !files->empty();
}

// Drops records of other overlays, so nothing may point to records yet.
Status UseOverlay(const std::string& version, Split& split) {
  Status used = manifest::UseOverlay(split.path, version, split.manifest);
  if (used) return used;
  Error error = std::move(used).error();
  if (HasOverlayDirectory(split, version))
    error.hint = "its files are there, but the manifest is older: get the manifest again";
  return error;
}

// The set contains the overlay's fill for all groups, too; a node's mask excludes that of others.
Status AddOverlay(Split& split) {
  const OverlayPlan& overlay = *split.manifest.plan.current_overlay();
  SelectedSet set{"overlay " + overlay.version,
                  std::nullopt,
                  true,
                  FilesOf(split.manifest, Role::kOverlay),
                  HeldBy(overlay),
                  {}};
  if (set.files.empty()) return Absent(split, set.label);
  split.parts.sets.push_back(std::move(set));
  return Ok();
}

// Selects the trunk. For GGUF that includes the head, which has the model's metadata, and the
// routers, which have files of their own.
Status AddTrunk(Split& split) {
  SelectedParts& parts = split.parts;
  const bool gguf = split.manifest.is_gguf();
  if (gguf) parts.head = FilesOf(split.manifest, Role::kHead);
  if (gguf && parts.head.empty()) return Absent(split, "head");
  parts.trunk = FilesOf(split.manifest, Role::kTrunk);
  if (parts.trunk.empty()) return Absent(split, "trunk");
  if (!gguf) return Ok();
  parts.routers = FilesOf(split.manifest, Role::kRouters);
  if (parts.routers.empty()) return Absent(split, "routers");
  return Ok();
}

}  // namespace

Status SelectParts(const LoadOptions& options, Split& split) {
  const bool named = !options.overlay_version.empty();
  const bool has = !split.manifest.plan.overlays.empty();
  const bool wanted = options.overlay && (named || has);
  if (wanted) SHARD_CHECK(UseOverlay(options.overlay_version, split));
  SHARD_CHECK(AddTrunk(split));
  SHARD_CHECK(SelectGroups(options.groups, split));
  return wanted ? AddOverlay(split) : Ok();
}

}  // namespace moepack::runtime
