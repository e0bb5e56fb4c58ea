// The sections of a distribution's README.md that say what was measured and where it came from.
#pragma once

#include <string>

#include "manifest/document/manifest.h"

namespace moepack::manifest {

// "Quality of the split": what `eval --record` measured or how to measure it, and every other
// figure of the manifest's `quality` and `calibration`.
std::string MeasuredText(const Manifest& manifest);

// "Where it comes from": source, revision, files with their digests, the command, and the line that
// proves that nothing was changed.
std::string ProvenanceText(const Manifest& manifest);

}  // namespace moepack::manifest
