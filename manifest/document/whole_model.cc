#include "manifest/document/whole_model.h"

#include <algorithm>

namespace moepack::manifest {
namespace {

bool Lists(const Manifest& manifest, Role role, std::optional<uint32_t> group) {
  return std::any_of(
      manifest.bundles.begin(), manifest.bundles.end(),
      [&](const BundleRecord& bundle) { return bundle.role == role && bundle.group == group; });
}

}  // namespace

bool HoldsWholeModel(const Manifest& manifest) {
  if (manifest.refit) return false;
  const Plan& plan = manifest.plan;
  const OverlayPlan* const overlay = plan.current_overlay();
  return std::all_of(plan.layers.begin(), plan.layers.end(), [&](const auto& layer) {
    ExpertIds held;
    for (uint32_t group = 0; group < plan.groups.size(); ++group) {
      if (!Lists(manifest, Role::kGroup, group)) continue;
      held = Union(held, moepack::IdsOf(HeldBy(plan.groups[group]), layer.first));
    }
    if (overlay != nullptr) held = Union(held, moepack::IdsOf(HeldBy(*overlay), layer.first));
    return held.size() == layer.second;
  });
}

}  // namespace moepack::manifest
