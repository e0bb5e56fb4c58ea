// The tokenizer of a model, or why it has none.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "libshard/base/result.h"
#include "libshard/format/gguf_metadata.h"
#include "runtime-shim/model/weights.h"
#include "runtime-shim/tokenizer/tokenizer.h"

namespace moepack::runtime {

// Returns `none`, the reason why the metadata has no tokenizer, if there is one. Otherwise opens
// the tokenizer; errors are those of OpenTokenizer without a reason.
Result<std::unique_ptr<Tokenizer>> OpenTokenizer(const std::string& path,
                                                 const GgufMetadata& metadata,
                                                 const std::optional<Error>& none);
// The same for the weights of a model.
Result<std::unique_ptr<Tokenizer>> OpenTokenizer(const Weights& weights);

}  // namespace moepack::runtime
