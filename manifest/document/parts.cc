#include "manifest/document/parts.h"

#include <algorithm>
#include <set>

#include "libshard/base/text/text.h"

namespace moepack::manifest {
namespace {

bool PlansExperts(const Plan& plan, const PartKey& part) {
  return std::any_of(plan.layers.begin(), plan.layers.end(), [&](const auto& layer) {
    return !PartExperts(plan, part, layer.first).empty();
  });
}

// Returns the parts of a complete distribution. A remainder is only written on request.
std::vector<PartKey> ExpectedParts(const Plan& plan, bool gguf) {
  std::vector<PartKey> parts = {{Role::kTrunk}};
  if (gguf) parts = {{Role::kHead}, {Role::kTrunk}, {Role::kRouters}};
  for (uint32_t group = 0; group < plan.groups.size(); ++group) {
    const PartKey part = {Role::kGroup, group};
    if (PlansExperts(plan, part)) parts.push_back(part);
  }
  for (const OverlayPlan& overlay : plan.overlays) {
    const PartKey part = {Role::kOverlay, std::nullopt, overlay.version};
    if (PlansExperts(plan, part)) parts.push_back(part);
  }
  return parts;
}

// Returns the name of a part in shard-experts --only.
std::string OnlyWord(const PartKey& part) {
  if (part.group) return Cat("group:", *part.group);
  const bool with_trunk = part.role == Role::kHead || part.role == Role::kRouters;
  return std::string(RoleName(with_trunk ? Role::kTrunk : part.role));
}

}  // namespace

PartKey PartOf(const BundleRecord& bundle) {
  return {bundle.role, bundle.group, OverlayVersionOf(bundle.role, bundle.file)};
}

PartKey PartOf(const OutputFile& file) {
  return {file.role, file.group, OverlayVersionOf(file.role, file.path)};
}

ExpertIds PartExperts(const Plan& plan, const PartKey& part, uint32_t layer) {
  if (part.role == Role::kOverlay) {
    const OverlayPlan* overlay = plan.FindOverlay(part.overlay);
    if (overlay == nullptr) return {};
    ExpertIds ids = IdsOf(overlay->experts_by_layer, layer);
    for (const LayerExperts& fill : overlay->fill) ids = Union(ids, IdsOf(fill, layer));
    return ids;
  }
  if (part.role == Role::kRemainder) return IdsOf(plan.remainder, layer);
  if (part.role != Role::kGroup || !part.group || *part.group >= plan.groups.size()) return {};
  const GroupPlan& own = plan.groups[*part.group];
  return Union(IdsOf(own.owned, layer), IdsOf(own.fill, layer));
}

std::string PartText(const PartKey& part) {
  if (part.group) return Cat("group ", *part.group);
  const std::string role(RoleName(part.role));
  return part.overlay.empty() ? role : Cat(role, " ", part.overlay);
}

std::vector<PartKey> AbsentParts(const Manifest& manifest) {
  std::set<PartKey> present;
  for (const BundleRecord& bundle : manifest.bundles) present.insert(PartOf(bundle));
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
