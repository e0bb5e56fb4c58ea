// Verifies a node's directory: its files must be those of moepack_node.json, and must form one
// model with the experts that it lists.
#pragma once

#include <string>

#include "manifest/verify/verify.h"

namespace moepack::manifest {

// Works like VerifyDistribution. Nodes only take the options `digests`, `jobs`, `progress` and
// `family_file`; kInvalidArgument for the others, which need a distribution.
Result<VerifyReport> VerifyNode(const std::string& directory, const VerifyOptions& options);

}  // namespace moepack::manifest
