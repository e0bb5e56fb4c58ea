// Proves a node's directory: the files that its moepack_node.json lists, and that they are one
// model with the experts it says.
#pragma once

#include <string>

#include "manifest/verify/verify.h"

namespace moepack::manifest {

// Like VerifyDistribution. Only the options `digests`, `jobs`, `progress` and `family_file` are for
// nodes; kInvalidArgument with the others, which need a distribution.
Result<VerifyReport> VerifyNode(const std::string& directory, const VerifyOptions& options);

}  // namespace moepack::manifest
