// The digest of a distribution's routers, by which statistics identify its model.
#pragma once

#include <string>

#include "libshard/base/files/source_tree.h"
#include "libshard/base/result.h"
#include "manifest/document/manifest.h"

namespace moepack::manifest {

// The same as RouterDigest of the model that the distribution was made from, unless a recipe
// changed the routers' type. Reads the routers; "" if they are missing, are on another machine, or
// have names that no family explains. `family_file` as for TensorNames.
Result<std::string> RouterDigest(const SourceTreePtr& tree, const Manifest& manifest,
                                 const std::string& family_file);

}  // namespace moepack::manifest
