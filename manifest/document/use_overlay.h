// Reduces a distribution to one version of its overlay, as its nodes have it.
#pragma once

#include <string>

#include "libshard/base/result.h"
#include "manifest/document/manifest.h"

namespace moepack::manifest {

// Leaves plan and bundles only this version of the overlay, and makes versions.replica that of it;
// "" is the current one, if there is any. kNotFound, with `where` in front, lists the versions that
// are there.
Status UseOverlay(const std::string& where, const std::string& version, Manifest& manifest);
// Leaves no overlay: the groups alone.
void UseNoOverlay(Manifest& manifest);

// Returns the overlay of this version; the error is that of UseOverlay.
Result<const OverlayPlan*> FindOverlay(const std::string& where, const std::string& version,
                                       const Plan& plan);

// Returns the versions of the overlay in the order of the manifest: "v1", "v2"; "none" for none.
std::string OverlayList(const Plan& plan);

}  // namespace moepack::manifest
