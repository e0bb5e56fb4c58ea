// Reads what a distribution says about its model, without any weights.
#pragma once

#include <optional>

#include "libshard/base/result.h"
#include "libshard/format/gguf_metadata.h"
#include "runtime-shim/load/part_selection.h"

namespace moepack::runtime {

struct ModelMetadata {
  GgufMetadata keys;
  std::optional<Error> no_tokenizer;  // as in Weights
};
// Returns the GGUF metadata of the whole model, with its tokenizer if it has a usable one. GGUF
// bundles have it in the head; for safetensors bundles config and tokenizer are converted, for
// which the headers of the trunk and of one group are read. kNotFound if these files are missing;
// otherwise the errors of opening and converting them. `split.parts` is replaced.
Result<ModelMetadata> ReadModelMetadata(Split& split);

}  // namespace moepack::runtime
