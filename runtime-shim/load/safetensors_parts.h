// Loads the parts of a safetensors distribution and converts them.
#pragma once

#include "libshard/base/result.h"
#include "runtime-shim/load/part_selection.h"
#include "runtime-shim/model/weights.h"

namespace moepack::runtime {

// Adds trunk, sets, metadata and the sizes of parts to `out`.
Status LoadSafetensorsParts(const Split& split, const LoadOptions& options, Weights& out);

}  // namespace moepack::runtime
