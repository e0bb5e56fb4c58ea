#include "manifest/document/parts.h"

#include <algorithm>
#include <set>

#include "libshard/base/text.h"

namespace moepack::manifest {
namespace {

bool PlansExperts(const Plan& plan, const PartKey& part) {
  return std::any_of(plan.layers.begin(), plan.layers.end(), [&](const auto& layer) {
    return !PartExperts(plan, part.first, part.second, layer.first).empty();
  });
}

// Returns the parts of a complete distribution. A remainder is written only on request.
std::vector<PartKey> ExpectedParts(const Plan& plan, bool gguf) {
  std::vector<PartKey> parts = {{Role::kTrunk, std::nullopt}};
  if (gguf) {
    parts = {
        {Role::kHead, std::nullopt}, {Role::kTrunk, std::nullopt}, {Role::kRouters, std::nullopt}};
  }
  for (uint32_t group = 0; group < plan.groups.size(); ++group) {
    const PartKey part = {Role::kGroup, group};
    if (PlansExperts(plan, part)) parts.push_back(part);
  }
  const PartKey overlay = {Role::kOverlay, std::nullopt};
  if (PlansExperts(plan, overlay)) parts.push_back(overlay);
  return parts;
}

// Returns what shard-experts --only calls a part.
std::string OnlyWord(const PartKey& part) {
  if (part.second) return Cat("group:", *part.second);
  const bool with_trunk = part.first == Role::kHead || part.first == Role::kRouters;
  return std::string(RoleName(with_trunk ? Role::kTrunk : part.first));
}

}  // namespace

ExpertIds PartExperts(const Plan& plan, Role role, std::optional<uint32_t> group, uint32_t layer) {
  if (role == Role::kOverlay) return IdsOf(plan.overlay, layer);
  if (role == Role::kRemainder) return IdsOf(plan.remainder, layer);
  if (role != Role::kGroup || !group || *group >= plan.groups.size()) return {};
  const GroupPlan& own = plan.groups[*group];
  return Union(IdsOf(own.owned, layer), IdsOf(own.fill, layer));
}

std::string PartText(Role role, std::optional<uint32_t> group) {
  return group ? Cat("group ", *group) : std::string(RoleName(role));
}

std::vector<PartKey> AbsentParts(const Manifest& manifest) {
  std::set<PartKey> present;
  for (const BundleRecord& bundle : manifest.bundles) present.insert({bundle.role, bundle.group});
  std::vector<PartKey> absent = ExpectedParts(manifest.plan, manifest.is_gguf());
  std::erase_if(absent, [&](const PartKey& part) { return present.contains(part); });
  return absent;
}

std::vector<std::string> AbsentWords(const Manifest& manifest) {
  std::vector<std::string> words;
  for (const PartKey& part : AbsentParts(manifest)) {
    std::string word = OnlyWord(part);
    if (std::find(words.begin(), words.end(), word) == words.end())
      words.push_back(std::move(word));
  }
  const bool has_assets = !manifest.assets.empty() || manifest.without_assets || manifest.complete;
  if (!has_assets) words.emplace_back("assets");
  return words;
}

void SetComplete(bool source_has_assets, Manifest& manifest) {
  manifest.complete = false;
  manifest.without_assets = !source_has_assets && manifest.assets.empty();
  manifest.complete = AbsentWords(manifest).empty();
  if (manifest.complete) manifest.without_assets = false;
}

}  // namespace moepack::manifest
