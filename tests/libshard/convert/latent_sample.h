// A tiny checkpoint with multi-head latent attention: layer 0 dense, layer 1 with two experts and a
// shared one.
#pragma once

#include "tests/libshard/convert/sample.h"

namespace moepack {

// Without a low rank, q_proj projects the queries (DeepSeek-V2-Lite).
inline void AddLatentAttention(ConvertSample& sample, const std::string& at, bool low_rank) {
  sample.Add(at + "input_layernorm.weight", {4});
  sample.Add(at + "post_attention_layernorm.weight", {4});
  if (low_rank) {
    sample.Add(at + "self_attn.q_a_proj.weight", {2, 4});
    sample.Add(at + "self_attn.q_a_layernorm.weight", {2});
    sample.Add(at + "self_attn.q_b_proj.weight", {8, 2});
  } else {
    sample.Add(at + "self_attn.q_proj.weight", {8, 4});
  }
  sample.Add(at + "self_attn.kv_a_proj_with_mqa.weight", {5, 4});
  sample.Add(at + "self_attn.kv_a_layernorm.weight", {3});
  sample.Add(at + "self_attn.kv_b_proj.weight", {6, 3});
  sample.Add(at + "self_attn.o_proj.weight", {4, 2});
}

inline void AddDeepseekExperts(ConvertSample& sample, const std::string& at, bool bias) {
  sample.Add(at + "mlp.gate.weight", {2, 4});
  if (bias) sample.Add(at + "mlp.gate.e_score_correction_bias", {2});
  for (const char* module : {"experts.0", "experts.1", "shared_experts"}) {
    sample.Add(at + "mlp." + module + ".gate_proj.weight", {2, 4});
    sample.Add(at + "mlp." + module + ".up_proj.weight", {2, 4});
    sample.Add(at + "mlp." + module + ".down_proj.weight", {4, 2});
  }
}

inline void AddDenseMlp(ConvertSample& sample, const std::string& at) {
  sample.Add(at + "gate_proj.weight", {2, 4});
  sample.Add(at + "up_proj.weight", {2, 4});
  sample.Add(at + "down_proj.weight", {4, 2});
}

// The tensors that a block for multi-token prediction has in addition to a decoder layer.
inline void AddNextToken(ConvertSample& sample, const std::string& at) {
  sample.Add(at + "eh_proj.weight", {4, 8});
  sample.Add(at + "enorm.weight", {4});
  sample.Add(at + "hnorm.weight", {4});
  sample.Add(at + "shared_head.norm.weight", {4});
}

inline void AddTokenizer(ConvertSample& sample) {
  sample.tokenizer = Json::parse(R"({"added_tokens": [
      {"id": 3, "content": "<|user|>", "special": true}],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})");
  sample.tokenizer_config = Json::object();
}

inline void AddModel(ConvertSample& sample) {
  AddTokenizer(sample);
  sample.Add("model.embed_tokens.weight", {5, 4});
  sample.Add("model.norm.weight", {4});
  sample.Add("lm_head.weight", {5, 4});
}

inline ConvertSample LatentSample(const char* architecture, const char* model_type,
                                  bool low_rank = true) {
  ConvertSample sample;
  sample.config = Json::parse(R"({"num_hidden_layers": 2, "hidden_size": 4,
    "num_attention_heads": 2, "num_key_value_heads": 2, "qk_nope_head_dim": 2,
    "qk_rope_head_dim": 2, "v_head_dim": 1, "kv_lora_rank": 3, "n_routed_experts": 2,
    "num_experts_per_tok": 1, "n_group": 1, "topk_group": 1, "n_shared_experts": 1,
    "first_k_dense_replace": 1, "moe_intermediate_size": 2, "intermediate_size": 2,
    "vocab_size": 5, "max_position_embeddings": 64, "tie_word_embeddings": false})");
  sample.config["architectures"] = {architecture};
  sample.config["model_type"] = model_type;
  if (low_rank) sample.config["q_lora_rank"] = 2;
  AddModel(sample);
  AddLatentAttention(sample, "model.layers.0.", low_rank);
  AddDenseMlp(sample, "model.layers.0.mlp.");
  AddLatentAttention(sample, "model.layers.1.", low_rank);
  AddDeepseekExperts(sample, "model.layers.1.", std::string(model_type) != "deepseek_v2");
  return sample;
}

}  // namespace moepack
