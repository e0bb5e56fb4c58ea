// The digest of the routers of a distribution, by which statistics of its model are known.
#pragma once

#include <string>

#include "libshard/base/files/source_tree.h"
#include "libshard/base/result.h"
#include "manifest/document/manifest.h"

namespace moepack::manifest {

// As RouterDigest of the model that the distribution was made of, unless a recipe changed the type
// of routers. Reads the routers; "" where they are not there, lie on another machine, or have names
// that no family explains. `family_file` as for TensorNames.
Result<std::string> RouterDigest(const SourceTreePtr& tree, const Manifest& manifest,
                                 const std::string& family_file);

}  // namespace moepack::manifest
