// Loads models that are not split: a GGUF, a Hugging Face checkpoint, or an assembled node, which
// is one of these.
#pragma once

#include "libshard/base/files/source_tree.h"
#include "libshard/base/result.h"
#include "runtime-shim/model/weights.h"

namespace moepack::runtime {

Result<Weights> LoadPlainModel(const moepack::Source& source, const LoadOptions& options);

}  // namespace moepack::runtime
