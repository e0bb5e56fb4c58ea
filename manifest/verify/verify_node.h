// Verifies a node's directory: that its files are those of moepack_node.json, and that they are one
// model with the experts it lists.
#pragma once

#include <string>

#include "manifest/verify/verify.h"

namespace moepack::manifest {

// Works like VerifyDistribution. Nodes take only the options `digests`, `jobs`, `progress` and
// `family_file`; kInvalidArgument for the others, which need a distribution.
Result<VerifyReport> VerifyNode(const std::string& directory, const VerifyOptions& options);

}  // namespace moepack::manifest
