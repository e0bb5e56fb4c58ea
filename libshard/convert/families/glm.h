// What GLM's families share.
#pragma once

#include "libshard/convert/hf_family.h"

namespace moepack {

// Its special tokens, the pre-tokenizer's name, and blocks for multi-token prediction, which are
// kept: eh_proj, enorm, hnorm, and what they may have of their own beside the model's
// (embed_tokens, shared_head).
void AddGlmRules(HfFamily& family);

}  // namespace moepack
