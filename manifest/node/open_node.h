// Opens models that may be nodes. If assemble shared the trunk with other nodes, a node's file may
// be a link that leads out of its directory.
#pragma once

#include <string>

#include "libshard/base/files/source_tree.h"
#include "libshard/base/progress.h"
#include "libshard/base/result.h"
#include "libshard/model/model.h"

namespace moepack::manifest {

// Opens as MoeModel::Open does. A GGUF file that is a link out of its directory is only opened if
// moepack_node.json beside it lists it, and after its digest was compared (kMismatch). Otherwise
// the author of a directory could make us read any file by linking to it. `report` counts the bytes
// that are compared; apart from these only headers are read.
Result<MoeModel> OpenModelOrNode(const moepack::Source& source, const ModelOptions& options,
                                 const OnProgress& report = {});

}  // namespace moepack::manifest
