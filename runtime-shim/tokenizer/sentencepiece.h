// SentencePiece models through the library, which is configured to do what llama.cpp does.
#pragma once

#include <memory>
#include <string>

#include "runtime-shim/tokenizer/tokenizer.h"

namespace moepack::runtime {

// For tokenizer.ggml.model "llama"; errors are those of OpenTokenizer, and kCorrupt if the
// vocabulary has no token for a byte.
Result<std::unique_ptr<Tokenizer>> OpenSentencePiece(const std::string& path,
                                                     const GgufMetadata& metadata);

}  // namespace moepack::runtime
