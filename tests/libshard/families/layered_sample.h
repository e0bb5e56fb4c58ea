// A tiny checkpoint with grouped attention: layer 0 dense, layer 1 with two experts of width 2 and
// a shared one. Two query heads and one key head of two values, hidden size 4.
#pragma once

#include <string>
#include <utility>

#include "tests/libshard/convert/latent_sample.h"

namespace moepack {

inline const char* const kLayeredFields = R"({"num_hidden_layers": 2, "hidden_size": 4,
    "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 2,
    "moe_intermediate_size": 2, "num_experts_per_tok": 1, "vocab_size": 5,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "rope_theta": 10000,
    "first_k_dense_replace": 1, "tie_word_embeddings": false})";

inline ConvertSample LayeredSample(const char* architecture, const char* model_type,
                                   const char* experts) {
  ConvertSample sample;
  sample.config = Json::parse(kLayeredFields);
  sample.config["architectures"] = {architecture};
  sample.config["model_type"] = model_type;
  sample.config[experts] = 2;
  return sample;
}

inline void AddLayerNorms(ConvertSample& sample, const std::string& at) {
  sample.Add(at + "input_layernorm.weight", {4});
  sample.Add(at + "post_attention_layernorm.weight", {4});
}

inline void AddGroupedAttention(ConvertSample& sample, const std::string& at) {
  const std::pair<const char*, uint64_t> rows[] = {{"q", 4}, {"k", 2}, {"v", 2}};
  for (const auto& [part, size] : rows) {
    sample.Add(at + "self_attn." + part + "_proj.weight", {size, 4});
  }
  sample.Add(at + "self_attn.o_proj.weight", {4, 4});
}

}  // namespace moepack
