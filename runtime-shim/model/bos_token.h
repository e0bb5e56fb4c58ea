// The token that begins every sequence.
#pragma once

#include <cstdint>
#include <optional>

#include "libshard/format/gguf_metadata.h"

namespace moepack::runtime {

// Returns tokenizer.ggml.bos_token_id.
std::optional<uint32_t> BosToken(const GgufMetadata& metadata);

}  // namespace moepack::runtime
