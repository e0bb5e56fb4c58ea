// Changes how many experts a token uses, in the metadata of a model.
#pragma once

#include <cstdint>
#include <string>

#include "libshard/base/result.h"
#include "libshard/format/gguf_metadata.h"

namespace moepack {

// Some runtimes compute the width of experts from expert_used_count; `used` is its current value.
// This adds the width, if it is missing, before that count changes. kUnsupported if there is no way
// to work it out, with `where` in the message.
Status KeepExpertWidth(const std::string& where, uint64_t used, GgufMetadata& metadata);

// Sets expert_used_count to `top_k` in every layer that has experts, and keeps their width.
// kCorrupt for a count that is neither a number nor a list with one per layer.
Status SetUsedExperts(const std::string& where, uint32_t top_k, GgufMetadata& metadata);

}  // namespace moepack
