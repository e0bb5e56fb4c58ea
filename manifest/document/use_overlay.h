// Reduces a distribution to one version of its overlay, as its nodes have it.
#pragma once

#include <string>

#include "libshard/base/result.h"
#include "manifest/document/manifest.h"

namespace moepack::manifest {

// Reduces plan and bundles to this version of the overlay, and sets versions.replica to it; ""
// means the current one, if any. kNotFound, with `where` in front, lists the existing versions.
Status UseOverlay(const std::string& where, const std::string& version, Manifest& manifest);
// Removes all overlays, leaving the groups alone.
void UseNoOverlay(Manifest& manifest);

// Returns the overlay of this version; the error is that of UseOverlay.
Result<const OverlayPlan*> FindOverlay(const std::string& where, const std::string& version,
                                       const Plan& plan);

// Returns the versions of the overlay in the order of the manifest: "v1", "v2"; "none" for none.
std::string OverlayList(const Plan& plan);

}  // namespace moepack::manifest
