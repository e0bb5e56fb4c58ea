// Opens models that may be nodes. A node's files are links out of its directory where assemble
// shared the trunk with other nodes.
#pragma once

#include <string>

#include "libshard/base/byte_progress.h"
#include "libshard/base/result.h"
#include "libshard/base/source_tree.h"
#include "libshard/model/model.h"

namespace moepack::manifest {

// As MoeModel::Open. GGUF files that lead out of the directory they are found in are opened only
// when moepack_node.json beside them lists them, and after each was compared with its digest there
// (kMismatch): so that whoever makes a directory cannot have other files read by pointing at them.
// `report` counts these bytes; apart from them only headers are read.
Result<MoeModel> OpenModelOrNode(const moepack::Source& source, const ModelOptions& options,
                                 const ByteReport& report = {});

}  // namespace moepack::manifest
