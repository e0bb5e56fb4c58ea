// Changes the metadata of a model for a node that holds some of its experts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/format/gguf_metadata.h"
#include "libshard/model/gguf_experts.h"

namespace moepack {

// Rewrites every key of the table for a file that holds only the experts of `cut`: expert_count,
// expert_used_count (with expert_feed_forward_length made explicit if a runtime would divide by
// it), the routing groups (kept if every layer keeps equally many experts of each and the used
// groups have enough for top-k, otherwise dropped with a note). Each change that alters routing
// appends a sentence to `notes`. general.* and tokenizer.* stay, and with all experts nothing
// changes. kUnsupported, with the reason, for what a stock runtime would get wrong: layers that
// keep different numbers, Llama-4 (its QK norm depends on an expert count of 128), per-layer expert
// counts, hash routing (a table of expert ids), experts that share chunks, a key about experts that
// is not in the table. `where` names the source in errors.
Status CutMetadata(const std::string& where, const ExpertCut& cut, GgufMetadata& metadata,
                   std::vector<std::string>& notes);

// Changes how many experts a token uses, in the metadata of a model.

// Some runtimes compute the width of experts from expert_used_count; `used` is its current value.
// This adds the width, if it is missing, before that count changes. kUnsupported if there is no way
// to work it out, with `where` in the message.
Status KeepExpertWidth(const std::string& where, uint64_t used, GgufMetadata& metadata);

// Sets expert_used_count to `top_k` in every layer that has experts, and keeps their width.
// kCorrupt for a count that is neither a number nor a list with one per layer.
Status SetUsedExperts(const std::string& where, uint32_t top_k, GgufMetadata& metadata);

}  // namespace moepack
