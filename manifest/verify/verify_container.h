// What a file of a distribution says of itself.
#pragma once

#include "libshard/base/source_tree.h"
#include "manifest/document/manifest.h"

namespace moepack::manifest {

// Reads the file's own header and compares with the manifest: tensors, model, role, group, overlay
// and experts (kMismatch, with the first thing that is not as the manifest says).
Status CheckHeader(const SourceTree& distribution, const Manifest& manifest,
                   const BundleRecord& bundle);

}  // namespace moepack::manifest
