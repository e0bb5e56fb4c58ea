// A node of a GGUF distribution: the split set of design.md section 5, or one file.
#pragma once

#include <string>

#include "manifest/document/manifest.h"
#include "manifest/document/node_record.h"
#include "manifest/node/assemble.h"

namespace manifest {

// AssembleNode for GGUF bundles; `record` is the node's, without its files. REQUIRES: options.group
// is a group of the plan. Refused beside what AssembleNode refuses: what a stock llama.cpp would
// get wrong with fewer experts (shard::CutMetadata).
Result<AssembleReport> AssembleGgufNode(const std::string& distribution, const Manifest& manifest,
                                        const NodeRecord& record, const std::string& out,
                                        const AssembleOptions& options);

}  // namespace manifest
