// Maps the parts of a GGUF distribution.
#pragma once

#include "libshard/base/result.h"
#include "runtime-shim/load/part_selection.h"
#include "runtime-shim/model/weights.h"

namespace moepack::runtime {

// Adds trunk (with whole routers), sets, metadata and the sizes of parts to `out`.
Status LoadGgufParts(const Split& split, const LoadOptions& options, Weights& out);

}  // namespace moepack::runtime
