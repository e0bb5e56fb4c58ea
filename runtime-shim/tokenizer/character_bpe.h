// BPE over characters: Gemma-4.
#pragma once

#include <memory>
#include <string>

#include "runtime-shim/tokenizer/tokenizer.h"

namespace moepack::runtime {

// For tokenizer.ggml.model "gemma4", whatever tokenizer.ggml.pre says; errors are those of
// OpenTokenizer.
Result<std::unique_ptr<Tokenizer>> OpenCharacterBpe(const std::string& path,
                                                    const GgufMetadata& metadata);

}  // namespace moepack::runtime
