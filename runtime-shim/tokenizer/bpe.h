// Byte-level BPE: words from the pre-tokenizer's expressions, tokens from merges.
#pragma once

#include <memory>
#include <string>

#include "runtime-shim/tokenizer/tokenizer.h"

namespace moepack::runtime {

// For tokenizer.ggml.model "gpt2"; errors are those of OpenTokenizer.
Result<std::unique_ptr<Tokenizer>> OpenBpe(const std::string& path, const GgufMetadata& metadata);

}  // namespace moepack::runtime
