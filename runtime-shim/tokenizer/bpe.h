// Byte-level BPE: words by the pre-tokenizer's expressions, tokens by merges.
#pragma once

#include <memory>
#include <string>

#include "runtime-shim/tokenizer/tokenizer.h"

namespace moepack::runtime {

// For tokenizer.ggml.model "gpt2"; errors as OpenTokenizer has them.
Result<std::unique_ptr<Tokenizer>> OpenBpe(const std::string& path, const GgufMetadata& metadata);

}  // namespace moepack::runtime
