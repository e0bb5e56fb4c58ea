// Models that may be nodes: files of a node are links out of its directory where assemble shared
// the trunk with others.
#pragma once

#include <string>

#include "libshard/base/byte_progress.h"
#include "libshard/base/result.h"
#include "libshard/base/source_tree.h"
#include "libshard/model/model.h"

namespace manifest {

// As MoeModel::Open. GGUF files that lead out of the directory they are found in are opened only
// when moepack_node.json beside them lists them, and after each was compared with its digest there
// (kMismatch): who makes a directory cannot have other files read by pointing at them. `report` is
// told of these bytes; nothing else is read but headers.
shard::Result<shard::MoeModel> OpenModelOrNode(const shard::Source& source,
                                               const shard::ModelOptions& options,
                                               const shard::ByteReport& report = {});

}  // namespace manifest
