// The section of a distribution's README.md about what a refit did to the weights.
#pragma once

#include <string>

#include "manifest/document/manifest.h"

namespace moepack::manifest {

// "What was done to the weights": method, texts and the error of every layer before and after. ""
// without a refit.
std::string RefitText(const Manifest& manifest);

}  // namespace moepack::manifest
