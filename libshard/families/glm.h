// Code shared by the GLM families.
#pragma once

#include "libshard/convert/hf_family.h"

namespace moepack {

// Adds the special tokens, the pre-tokenizer's name, and blocks for multi-token prediction, which
// are kept: eh_proj, enorm, hnorm, and their own copies of embed_tokens and shared_head, if any.
void AddGlmRules(HfFamily& family);

}  // namespace moepack
