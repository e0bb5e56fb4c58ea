// Assembles a node of a GGUF distribution: a split set (docs/distribution-format.md), or one file.
#pragma once

#include <string>

#include "manifest/document/manifest.h"
#include "manifest/document/node_record.h"
#include "manifest/node/assemble.h"

namespace moepack::manifest {

// AssembleNode for GGUF bundles; `record` is the node's, without its files. It also refuses what
// stock llama.cpp would get wrong with fewer experts (CutMetadata). REQUIRES: options.group is a
// group of the plan.
Result<AssembleReport> AssembleGgufNode(const SourceTreePtr& distribution, const Manifest& manifest,
                                        const NodeRecord& record, const std::string& out,
                                        const AssembleOptions& options);

}  // namespace moepack::manifest
