// The section of a distribution's README.md about what a refit and a calibration did to the
// weights.
#pragma once

#include <string>

#include "manifest/document/manifest.h"

namespace moepack::manifest {

// "What was done to the weights": of a refit its method, its texts and the error of every layer
// before and after; of a calibration how many matrices it encoded, and its texts. "" without both.
std::string WeightsText(const Manifest& manifest);

}  // namespace moepack::manifest
