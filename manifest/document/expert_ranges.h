// Where the experts are in the files of a distribution.
#pragma once

#include <vector>

#include "libshard/base/result.h"
#include "libshard/replay/expert_layout.h"
#include "libshard/stats/statistics.h"
#include "manifest/document/manifest.h"

namespace moepack::manifest {

// If several bundles hold an expert, its place in the first: groups come before overlays.
// SourceRange::file is the index of the bundle. kNotFound names an expert that is in no bundle.
// `where` names the distribution.
Result<ExpertRanges> RangesOf(const std::string& where, const Manifest& manifest);

// The layers with experts, ascending; top_k is 0 if the manifest does not have it.
std::vector<MoeLayerShape> ShapesOf(const Manifest& manifest);

}  // namespace moepack::manifest
