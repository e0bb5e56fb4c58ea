#include "manifest/document/use_overlay.h"

#include <vector>

#include "libshard/base/text/text.h"
#include "manifest/document/parts.h"

namespace moepack::manifest {

std::string OverlayList(const Plan& plan) {
  std::vector<std::string> versions;
  for (const OverlayPlan& overlay : plan.overlays) versions.push_back(Quoted(overlay.version));
  return versions.empty() ? "none" : moepack::Join(versions, ", ");
}

Result<const OverlayPlan*> FindOverlay(const std::string& where, const std::string& version,
                                       const Plan& plan) {
  if (const OverlayPlan* found = plan.FindOverlay(version)) return found;
  return Error{Code::kNotFound,
               Cat(where, ": overlay ", Quoted(version), ": expected in the manifest, found ",
                   plan.overlays.empty() ? "" : "only ", OverlayList(plan))};
}

Status UseOverlay(const std::string& where, const std::string& version, Manifest& manifest) {
  Plan& plan = manifest.plan;
  if (version.empty() && plan.overlays.empty()) return Ok();
  const OverlayPlan* found = plan.current_overlay();
  if (!version.empty()) {
    SHARD_TRY(found, FindOverlay(where, version, plan));
  }
  const bool current = found == plan.current_overlay();
  OverlayPlan kept = *found;
  std::erase_if(manifest.bundles, [&](const BundleRecord& bundle) {
    return bundle.role == Role::kOverlay && PartOf(bundle).overlay != kept.version;
  });
  plan.overlays.clear();
  plan.overlays.push_back(std::move(kept));
  // What the manifest says about the current one is left for others to check.
  if (!current) manifest.versions.replica = ComputeVersions(manifest.versions.model, plan).replica;
  return Ok();
}

void UseNoOverlay(Manifest& manifest) {
  manifest.plan.overlays.clear();
  manifest.versions.replica.clear();
  std::erase_if(manifest.bundles,
                [](const BundleRecord& bundle) { return bundle.role == Role::kOverlay; });
}

}  // namespace moepack::manifest
