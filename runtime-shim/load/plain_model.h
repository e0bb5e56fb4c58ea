// Models that are not split: a GGUF, a Hugging Face checkpoint, or a node that was assembled from a
// distribution, which is one of them.
#pragma once

#include "libshard/base/result.h"
#include "libshard/base/source_tree.h"
#include "runtime-shim/model/weights.h"

namespace moepack::runtime {

Result<Weights> LoadPlainModel(const moepack::Source& source, const LoadOptions& options);

}  // namespace moepack::runtime
