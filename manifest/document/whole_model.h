// Whether a distribution can stand for the model that it was made from.
#pragma once

#include "manifest/document/manifest.h"

namespace moepack::manifest {

// Whether all groups and the current overlay together hold every expert as the model has it. Not so
// if a plan leaves experts on no node, if bundles of groups were left out, or after a refit, which
// gives each group its own. `eval` and `profile` then need the model itself.
bool HoldsWholeModel(const Manifest& manifest);

}  // namespace moepack::manifest
