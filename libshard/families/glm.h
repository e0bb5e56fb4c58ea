// Code shared by the GLM families.
#pragma once

#include "libshard/convert/hf_family.h"

namespace moepack {

// Adds the special tokens, the pre-tokenizer's name, and blocks for multi-token prediction, which
// are kept: eh_proj, enorm, hnorm, and their own copies of embed_tokens and shared_head, if any.
void AddGlmRules(HfFamily& family);

// Adds llama.cpp's architecture "glm4moe": biases on queries, keys and values and norms of queries
// and keys, where a model has them; leading dense layers; sigmoid scores with a selection bias.
void AddGlm4Moe(HfFamily& family);

}  // namespace moepack
