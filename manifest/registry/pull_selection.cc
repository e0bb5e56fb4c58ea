#include "manifest/registry/pull_selection.h"

#include <algorithm>
#include <set>

#include "libshard/base/text/text.h"
#include "manifest/document/group_range.h"
#include "manifest/document/use_overlay.h"

namespace moepack::registry {
namespace {

// Every node has these; of groups and overlays only what was requested.
bool IsForEveryNode(std::string_view role) {
  return role == kManifestRole || role == kAssetRole || role == kDocRole ||
         role == RoleName(Role::kHead) || role == RoleName(Role::kTrunk) ||
         role == RoleName(Role::kRouters);
}

}  // namespace

std::vector<BlobRecord> SelectLayers(const std::vector<BlobRecord>& all,
                                     const std::vector<uint32_t>& groups,
                                     const OverlayChoice& overlay) {
  std::set<std::string> wanted;
  for (const uint32_t group : groups) wanted.insert(GroupText(group));
  std::vector<BlobRecord> layers;
  for (const BlobRecord& layer : all) {
    const std::string role = AnnotationOf(layer.annotations, kRoleKey);
    const bool of_group = role == RoleName(Role::kGroup) &&
                          wanted.contains(AnnotationOf(layer.annotations, kGroupKey));
    const bool of_overlay = role == RoleName(Role::kOverlay) &&
                            overlay == AnnotationOf(layer.annotations, kOverlayVersionKey);
    if (IsForEveryNode(role) || of_group || of_overlay) layers.push_back(layer);
  }
  return layers;
}

OverlayChoice CurrentOverlay(const OciManifest& oci) {
  return AnnotationOf(oci.annotations, kOverlayVersionKey);
}

Result<std::vector<uint32_t>> ChooseGroups(const std::string& where, const OpenedSet& set,
                                           std::vector<uint32_t> asked) {
  std::vector<uint32_t> there = GroupsThere(set.manifest);
  if (set.view_group) there = {*set.view_group};
  if (asked.empty() && set.view_group) return there;
  if (asked.empty()) {
    return Error{Code::kInvalidArgument, Cat(where, ": expected --group, found none"),
                 "a set has the files of all groups: name those that this machine serves"};
  }
  std::sort(asked.begin(), asked.end());
  asked.erase(std::unique(asked.begin(), asked.end()), asked.end());
  for (const uint32_t group : asked) {
    SHARD_CHECK(manifest::CheckGroup(where, group, set.manifest.plan.groups.size()));
    if (std::find(there.begin(), there.end(), group) != there.end()) continue;
    return Error{Code::kInvalidArgument,
                 Cat(where, ": group: expected ", FormatChoice(there), ", found ", group)};
  }
  return asked;
}

std::string GroupsText(const std::vector<uint32_t>& groups) {
  std::vector<std::string> words;
  for (const uint32_t group : groups) words.push_back(Cat(group));
  return Cat(groups.size() == 1 ? "group " : "groups ", moepack::Join(words, ", "));
}

Result<OverlayChoice> ChooseOverlay(const std::string& where, const OpenedSet& set,
                                    const std::string& version) {
  const Plan& plan = set.manifest.plan;
  if (version.empty()) return CurrentOverlay(set.oci);
  if (plan.FindOverlay(version) != nullptr) return OverlayChoice(version);
  return Error{
      Code::kInvalidArgument,
      Cat(where, ": overlay: expected ", Quoted(version), ", found ", manifest::OverlayList(plan)),
      "name the tag of a set that has this one"};
}

}  // namespace moepack::registry
