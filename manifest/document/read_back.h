// Reads distribution.json back, as its reader will, before it is written. docs/architecture.md,
// "What a writer accepts its reader accepts".
#pragma once

#include <string>
#include <vector>

#include "libshard/pack/slice.h"
#include "manifest/document/manifest.h"

namespace moepack::manifest {

// Returns kUnsupported, with the reader's reason, if ParseManifest would refuse the text of
// WriteManifest or read something else from it. Tensors are read a few at a time to save memory.
Status ReadBackManifest(const Manifest& manifest);
// Does the same before a byte is packed; `files` are the bundles to be written.
Status ReadBackPlanned(const Manifest& manifest, const std::vector<OutputFile>& files,
                       const std::string& format);

}  // namespace moepack::manifest
