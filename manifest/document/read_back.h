// distribution.json is read back, as its reader will read it, before it is written.
// docs/architecture.md, "What a writer accepts its reader accepts".
#pragma once

#include <string>
#include <vector>

#include "libshard/pack/slice.h"
#include "manifest/document/manifest.h"

namespace moepack::manifest {

// kUnsupported, with the reader's reason, when ParseManifest would refuse what WriteManifest makes
// of this, or would read something else. Tensors are read a few at a time, so it takes little
// memory.
Status ReadBackManifest(const Manifest& manifest);
// The same before a byte is packed; `files` stand for the future bundles.
Status ReadBackPlanned(const Manifest& manifest, const std::vector<OutputFile>& files,
                       const std::string& format);

}  // namespace moepack::manifest
