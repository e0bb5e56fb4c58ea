// What changed between two nodes.
#pragma once

#include "manifest/document/diff.h"
#include "manifest/document/node_record.h"

namespace moepack::manifest {

// By what their moepack_node.json say.
DiffReport DiffNodes(const NodeRecord& a, const NodeRecord& b);

}  // namespace moepack::manifest
