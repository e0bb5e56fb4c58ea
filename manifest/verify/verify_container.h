// Checks what a file of a distribution says about itself.
#pragma once

#include "libshard/base/files/source_tree.h"
#include "manifest/document/manifest.h"

namespace moepack::manifest {

// Reads the file's header and compares tensors, model, role, group, overlay and experts with the
// manifest (kMismatch, with the first difference).
Status CheckHeader(const SourceTree& distribution, const Manifest& manifest,
                   const BundleRecord& bundle);

}  // namespace moepack::manifest
