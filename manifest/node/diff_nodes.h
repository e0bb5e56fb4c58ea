// Finds what changed between two nodes.
#pragma once

#include "manifest/document/diff.h"
#include "manifest/document/node_record.h"

namespace moepack::manifest {

// Compares two nodes by their moepack_node.json.
DiffReport DiffNodes(const NodeRecord& a, const NodeRecord& b);

}  // namespace moepack::manifest
