// Properties of every family's conversion, and the runtime's requirements of each architecture
// (reference: llama.cpp v0.5.0, src/llama-model.cpp and src/models), over generated checkpoints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "fixtures/generator.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/text/text.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/format/gguf_key_types.h"
#include "tests/libshard/convert/convertible_layouts.h"
#include "tests/libshard/pack/tensor_bytes.h"

namespace moepack {
namespace {

using testing::Contains;
using testing::IsEmpty;

class ConvertedLayout : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(fixtures::MakeCheckpoint(GetParam(), dir_.path()));
    auto model = MoeModel::Open(dir_.path());
    ASSERT_TRUE(model) << model.error().message;
    model_.emplace(*std::move(model));
    auto gguf = ToGguf(*model_, {});
    ASSERT_TRUE(gguf) << gguf.error().message;
    gguf_ = *std::move(gguf);
  }
  std::set<std::string> Names() const {
    std::set<std::string> names;
    for (const GgufTensor& tensor : gguf_.tensors) names.insert(tensor.name);
    return names;
  }
  const GgufValue* Find(const std::string& key) const {
    return gguf_.metadata.Find(Cat(gguf_.architecture(), ".", key));
  }

  fixtures::TempDir dir_;
  std::optional<MoeModel> model_;
  GgufModel gguf_;
};

// The runtime refuses a file with one tensor too many, or with one tensor under two names.
TEST_P(ConvertedLayout, HasOptionalTensorsOnlyForArchitecturesThatReadThem) {
  EXPECT_EQ(Names().size(), gguf_.tensors.size()) << "two tensors have the same name";
  const bool hybrid = gguf_.architecture() == "qwen3next" || gguf_.architecture() == "qwen35moe" ||
                      gguf_.architecture() == "qwen4exp";
  const bool mamba =
      gguf_.architecture() == "nemotron_h_moe" || gguf_.architecture() == "granitehybrid";
  const bool joined = gguf_.architecture() == "bailingmoe2";
  const bool delta = gguf_.architecture() == "bailingmoe3" || gguf_.architecture() == "kimi-k3";
  for (const std::string& name : Names()) {
    const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
    EXPECT_LE(name.size(), 63u) << name;
    EXPECT_TRUE(gguf_.architecture() == "mistral4" || !has("gate_up_exps")) << name;
    EXPECT_FALSE(has("attn_kv_b.")) << name;
    const bool scales = gguf_.architecture() == "gemma4";
    EXPECT_TRUE(scales || !name.ends_with(".scale")) << name;
    EXPECT_FALSE(name.ends_with(".input_scale")) << name;
    EXPECT_TRUE(hybrid || joined || !has("attn_qkv")) << name;
    EXPECT_TRUE(hybrid || mamba || delta || !has("ssm_")) << name;
  }
}

TEST_P(ConvertedLayout, WritesEveryKeyWithTheTypeThatLlamaCppReads) {
  const std::string own = gguf_.architecture() + ".";
  for (const GgufEntry& entry : gguf_.metadata.entries()) {
    if (!entry.key.starts_with(own) || entry.value.type == GgufType::kString) continue;
    EXPECT_NE(FindGgufKeyType(gguf_.architecture(), entry.key), nullptr) << entry.key;
  }
  EXPECT_THAT(CorrectGgufTypes("m.gguf", gguf_.metadata), IsEmpty());
}

bool IsF32(const GgufTensor& tensor, const std::string& architecture) {
  const std::string& name = tensor.name;
  // llama.cpp's converter keeps the indexer of MiniMax-M3 in F32.
  if (architecture == "minimax-m3" && name.find(".indexer.") != std::string::npos) return true;
  const auto ends = [&](const char* end) { return name.ends_with(end); };
  return tensor.shape.size() <= 1 || ends("_norm.weight") || ends("ffn_gate_inp.weight") ||
         ends("ffn_gate_inp_shexp.weight") || ends("ssm_conv1d.weight") ||
         ends("ssm_conv1d_q.weight") || ends("ssm_conv1d_k.weight") ||
         ends("ssm_conv1d_v.weight") || ends("shortconv.conv.weight") ||
         ends("indexer.proj.weight") || !ends(".weight");
}

TEST_P(ConvertedLayout, KeepsInF32WhatTheRuntimeComputesInF32) {
  const bool own_types = gguf_.architecture() == "deepseek4";  // of matrices
  for (const GgufTensor& tensor : gguf_.tensors) {
    const bool f32 = own_types ? tensor.shape.size() <= 1 : IsF32(tensor, gguf_.architecture());
    EXPECT_EQ(tensor.fixed, f32) << tensor.name;
    EXPECT_TRUE(!tensor.fixed || tensor.type->name == "f32") << tensor.name;
  }
}

TEST_P(ConvertedLayout, StacksExpertsInAscendingOrder) {
  const uint32_t experts = fixtures::DescribeCheckpoint(GetParam()).experts;
  size_t stacked = 0;
  for (const GgufTensor& tensor : gguf_.tensors) {
    if (tensor.expert_count == 0) continue;
    ++stacked;
    EXPECT_EQ(tensor.shape[0], experts) << tensor.name;
    EXPECT_NE(tensor.sources.empty(), tensor.rows.empty()) << tensor.name;
    EXPECT_EQ(tensor.sources.size() % experts, 0u) << tensor.name;
    EXPECT_EQ(tensor.rows.size() % experts, 0u) << tensor.name;
    const auto before = [](const auto& a, const auto& b) { return a.order < b.order; };
    EXPECT_TRUE(std::is_sorted(tensor.sources.begin(), tensor.sources.end(), before))
        << tensor.name;
    EXPECT_TRUE(std::is_sorted(tensor.rows.begin(), tensor.rows.end(), before)) << tensor.name;
  }
  // Router, gate, up and down in every layer with experts in the GGUF.
  EXPECT_GE(stacked, gguf_.architecture() == "mistral4" ? 3u : 4u);
  EXPECT_EQ(Find("expert_count")->AsUint(), experts);
}

// Heads are in two halves everywhere except in the architectures whose rope rotates neighbours and
// whose checkpoints do not store them that way.
TEST_P(ConvertedLayout, OnlyFourArchitecturesGetPermutedQueriesAndKeys) {
  const std::set<std::string> neighbours = {"llama", "granitemoe", "granitehybrid", "bailingmoe"};
  // Puzzle has no rope, but llama.cpp's converter permutes its rows as if it had one.
  const bool permuted =
      neighbours.contains(gguf_.architecture()) || GetParam() == "nemotron-3-puzzle";
  size_t compared = 0;
  for (const GgufTensor& tensor : gguf_.tensors) {
    const bool query = tensor.name.find("attn_q.") != std::string::npos;
    const bool key = tensor.name.find("attn_k.") != std::string::npos;
    const bool indexer = tensor.name.find(".indexer.") != std::string::npos;
    if (indexer || !(query || key)) continue;
    ++compared;
    const TensorEntry* source = model_->checkpoint().Find(tensor.source_tensor);
    ASSERT_NE(source, nullptr) << tensor.source_tensor;
    // Unchanged rows come in one run, scaled ones as row numbers.
    const bool as_is = tensor.rows.size() == 1 ||
                       (tensor.sources.size() == 1 && tensor.sources[0].offset == source->offset &&
                        tensor.sources[0].bytes == source->bytes);
    EXPECT_EQ(as_is, !permuted) << tensor.name;
  }
  const bool others = Names().contains("blk.0.attn_q_b.weight") ||  // low-rank queries
                      gguf_.architecture() == "bailingmoe2";        // joined ones
  EXPECT_EQ(compared > 0, !others);
}

TEST_P(ConvertedLayout, GivesEveryRowOfTheEmbeddingOneToken) {
  const auto embedding = std::find_if(gguf_.tensors.begin(), gguf_.tensors.end(),
                                      [](const auto& t) { return t.name == "token_embd.weight"; });
  ASSERT_NE(embedding, gguf_.tensors.end());
  const GgufValue* tokens = gguf_.metadata.Find("tokenizer.ggml.tokens");
  ASSERT_NE(tokens, nullptr);
  EXPECT_EQ(tokens->Count(), embedding->shape[0]);
  EXPECT_EQ(gguf_.metadata.Find("tokenizer.ggml.token_type")->Count(), embedding->shape[0]);
  EXPECT_NE(gguf_.metadata.String("tokenizer.ggml.model"), "none");
}

const std::set<std::string_view> kFloats = {
    "activation.situ_beta",
    "activation.situ_linear_beta",
    "attention.compress_rope_freq_base",
    "attention.layer_norm_epsilon",
    "attention.layer_norm_rms_epsilon",
    "attention.scale",
    "attention.value_scale",
    "embedding_scale",
    "expert_group_scale",
    "expert_weights_scale",
    "final_logit_softcapping",
    "hyper_connection.epsilon",
    "kda.gate_lower_bound",
    "logit_scale",
    "residual_scale",
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.scaling.attn_factor",
    "rope.scaling.factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "rope.scaling.yarn_log_multiplier",
};
const std::map<std::string_view, GgufType> kOthers = {
    {"attention.compress_ratios", GgufType::kArray},
    {"attention.head_count", GgufType::kArray},
    {"attention.head_count_kv", GgufType::kArray},
    {"attention.indexer.types", GgufType::kArray},
    {"attention.recurrent_layers", GgufType::kArray},
    {"attention.sliding_window_pattern", GgufType::kArray},
    {"rope.dimension_sections", GgufType::kArray},
    {"rope.scaling.type", GgufType::kString},
    {"kda.safe_gate", GgufType::kBool},
    {"expert_feed_forward_length", GgufType::kArray},
    {"expert_used_count", GgufType::kArray},
    {"expert_weights_norm", GgufType::kBool},
    {"feed_forward_length", GgufType::kArray},
    {"ple.head_offsets", GgufType::kArray},
    {"ple.head_vocab_sizes", GgufType::kArray},
    {"ple.layer_multipliers", GgufType::kArray},
    {"ple.layers", GgufType::kArray},
    {"rope.scaling.finetuned", GgufType::kBool},
    {"swiglu_clamp_exp", GgufType::kArray},
    {"swiglu_clamp_shexp", GgufType::kArray},
};

TEST_P(ConvertedLayout, HasKeysOfTheTypesThatTheRuntimeReads) {
  const std::string start = gguf_.architecture() + ".";
  for (const GgufEntry& entry : gguf_.metadata.entries()) {
    if (!entry.key.starts_with(start)) continue;
    const std::string_view name = std::string_view(entry.key).substr(start.size());
    const auto other = kOthers.find(name);
    const bool one = entry.value.type != GgufType::kArray;  // number of heads in all layers
    const GgufType type = other != kOthers.end() && !(one && other->second == GgufType::kArray)
                              ? other->second
                          : kFloats.contains(name) ? GgufType::kF32
                                                   : GgufType::kU32;
    EXPECT_EQ(GgufTypeName(entry.value.type), GgufTypeName(type)) << entry.key;
  }
}

// Keys and tensors without which loading fails or goes wrong, and those that must be absent.
struct Requirement {
  const char* architecture;
  std::vector<const char*> keys, tensors, absent;
};
const std::vector<const char*> kHybridKeys = {
    "expert_feed_forward_length",
    "ssm.conv_kernel",
    "ssm.state_size",
    "ssm.group_count",
    "ssm.time_step_rank",
    "ssm.inner_size",
    "rope.dimension_count",
    "full_attention_interval",
    "attention.recurrent_layers",
};
const Requirement kRequirements[] = {
    {"llama", {"feed_forward_length", "rope.dimension_count"}, {}, {}},
    {"qwen2moe",
     {"expert_feed_forward_length", "expert_shared_feed_forward_length"},
     {"output.weight", "blk.0.ffn_gate_inp_shexp.weight"},
     {}},
    {"qwen3moe", {"expert_feed_forward_length", "attention.key_length"}, {}, {}},
    {"qwen3next", kHybridKeys, {"blk.0.ssm_a", "blk.0.ssm_dt.bias"}, {}},
    {"qwen35moe", kHybridKeys, {"blk.0.ssm_a", "blk.0.ssm_dt.bias"}, {}},
    {"olmoe", {"feed_forward_length"}, {"output.weight"}, {}},
    {"deepseek2",
     {"attention.q_lora_rank", "attention.kv_lora_rank", "attention.key_length_mla",
      "attention.value_length_mla", "expert_shared_count", "expert_feed_forward_length",
      "expert_gating_func", "leading_dense_block_count"},
     {"blk.0.attn_k_b.weight", "blk.0.attn_v_b.weight"},
     {}},
    {"gemma4",
     {"attention.sliding_window", "attention.sliding_window_pattern", "attention.key_length_swa",
      "attention.value_length_swa", "embedding_length_per_layer_input", "rope.freq_base_swa",
      "expert_feed_forward_length", "final_logit_softcapping"},
     {"rope_freqs.weight", "blk.0.attn_v.weight", "blk.0.ffn_gate_inp.scale",
      "blk.0.ffn_down_exps.scale", "blk.0.ffn_gate.weight", "blk.0.post_ffw_norm_2.weight"},
     {"expert_gating_func"}},
    {"glm4moe",
     {"expert_feed_forward_length", "expert_shared_count", "expert_gating_func",
      "leading_dense_block_count", "expert_weights_norm"},
     {"blk.1.exp_probs_b.bias", "blk.0.post_attention_norm.weight"},
     {}},
    {"gpt-oss",
     {"attention.sliding_window", "expert_feed_forward_length"},
     {"output.weight", "blk.0.attn_sinks.weight", "blk.0.ffn_gate_inp.bias",
      "blk.0.ffn_down_exps.bias", "blk.0.attn_output.bias"},
     {"rope.dimension_count", "expert_gating_func"}},
    {"llama4",
     {"interleave_moe_layer_step", "expert_feed_forward_length", "rope.dimension_count"},
     {},
     {"attention.sliding_window"}},
    {"minimax-m2",
     {"expert_gating_func", "feed_forward_length", "expert_feed_forward_length"},
     {"output.weight", "blk.0.exp_probs_b.bias"},
     {}},
    {"minimax-m3",
     {"expert_gating_func", "expert_weights_norm", "leading_dense_block_count",
      "expert_shared_count", "expert_feed_forward_length", "attention.indexer.head_count",
      "attention.indexer.key_length", "attention.indexer.top_k", "attention.indexer.block_size",
      "attention.indexer.local_blocks"},
     {"output.weight", "blk.0.attn_q_norm.weight", "blk.0.ffn_gate.weight",
      "blk.1.exp_probs_b.bias", "blk.1.ffn_gate_shexp.weight", "blk.1.indexer.q_proj.weight"},
     {}},
    {"cohere2moe",
     {"logit_scale", "attention.sliding_window", "attention.sliding_window_pattern",
      "leading_dense_block_count", "expert_feed_forward_length", "expert_weights_norm",
      "expert_shared_count", "expert_shared_feed_forward_length", "rope.scaling.type"},
     {"blk.0.ffn_gate.weight", "blk.1.ffn_gate_shexp.weight"},
     {"expert_weights_scale"}},
    {"qwen4exp",
     {"ssm.conv_kernel", "ssm.time_step_rank", "attention.recurrent_layers",
      "hyper_connection.count", "hyper_connection.low_rank", "attention.indexer.head_count",
      "attention.compress_ratios", "ple.layers", "ple.layer_multipliers", "ple.head_offsets",
      "ple.head_vocab_sizes", "ple.eos_token_id", "embedding_length_per_layer_input"},
     {"output_hc_norm.weight", "blk.0.hc_attn_inject.weight", "blk.1.ple_conv1d.weight",
      "per_layer_token_embd.weight", "blk.3.indexer.k_proj.weight"},
     {"nextn_predict_layers"}},
    {"granitemoe", {"logit_scale", "feed_forward_length"}, {}, {}},
    {"dots1",
     {"expert_gating_func", "expert_weights_scale", "leading_dense_block_count",
      "expert_shared_count", "expert_feed_forward_length"},
     {"output.weight", "blk.1.exp_probs_b.bias", "blk.0.attn_q_norm.weight"},
     {}},
    {"ernie4_5-moe",
     {"interleave_moe_layer_step", "leading_dense_block_count", "expert_feed_forward_length",
      "expert_shared_feed_forward_length"},
     {"blk.1.exp_probs_b.bias"},
     {}},
    {"hunyuan-moe",
     {"expert_feed_forward_length", "expert_shared_feed_forward_length", "feed_forward_length",
      "rope.scaling.type"},
     {"blk.0.attn_q_norm.weight", "blk.0.ffn_gate_shexp.weight"},
     {}},
    {"bailingmoe",
     {"expert_feed_forward_length", "expert_shared_count", "rope.dimension_count",
      "expert_weights_norm"},
     {"output.weight", "blk.0.attn_q.weight"},
     {}},
    {"bailingmoe2",
     {"expert_gating_func", "expert_feed_forward_length", "expert_shared_count",
      "rope.dimension_count", "nextn_predict_layers"},
     {"output.weight", "blk.0.attn_qkv.weight", "blk.3.layer_output_norm.weight",
      "blk.3.nextn.eh_proj.weight"},
     {}},
    {"bailingmoe3",
     {"expert_gating_func", "expert_feed_forward_length", "expert_shared_count", "kda.head_dim",
      "ssm.conv_kernel", "kda.gate_lower_bound", "attention.kv_lora_rank", "rope.dimension_count",
      "nextn_predict_layers"},
     {"output.weight", "blk.0.ssm_a", "blk.0.ssm_f_a.weight", "blk.3.attn_k_b.weight",
      "blk.3.attn_gate.weight", "blk.4.layer_output_norm.weight", "blk.4.nextn.eh_proj.weight"},
     {}},
    {"kimi-k3",
     {"expert_gating_func", "expert_feed_forward_length", "expert_latent_length", "kda.head_dim",
      "activation.situ_beta", "activation.situ_linear_beta", "attn_res.block_size",
      "attention.kv_lora_rank", "kda.gate_lower_bound"},
     {"output.weight", "output_res_score.weight", "blk.0.ssm_a", "blk.0.ssm_g.weight",
      "blk.1.ffn_routed_down.weight", "blk.3.attn_gate.weight", "blk.3.ffn_res_score.weight"},
     {"rope.freq_base", "kda.safe_gate"}},
    {"deepseek4",
     {"expert_gating_func", "expert_feed_forward_length", "attention.compress_ratios",
      "attention.compress_rope_freq_base", "attention.output_group_count", "hash_layer_count",
      "hyper_connection.count", "embedding_length_out", "swiglu_clamp_exp"},
     {"blk.0.ffn_gate_tid2eid.weight", "blk.1.exp_probs_b.bias", "blk.1.indexer.proj.weight",
      "blk.2.attn_compressor_ape.weight", "output_hc_fn.weight"},
     {"feed_forward_length", "nextn_predict_layers"}},
    {"mistral4",
     {"attention.q_lora_rank", "attention.kv_lora_rank", "attention.key_length_mla",
      "expert_shared_count", "expert_feed_forward_length", "rope.scaling.yarn_log_multiplier"},
     {"blk.0.attn_k_b.weight", "blk.0.ffn_gate_up_exps.weight"},
     {"expert_gating_func", "attention.temperature_length"}},
    {"mimo2",
     {"attention.sliding_window", "attention.sliding_window_pattern", "rope.freq_base_swa",
      "attention.value_scale", "expert_feed_forward_length"},
     {"output.weight", "blk.1.attn_sinks.weight", "blk.1.exp_probs_b.bias"},
     {}},
    {"step35",
     {"attention.sliding_window", "attention.sliding_window_pattern", "rope.freq_base_swa",
      "expert_feed_forward_length", "expert_shared_feed_forward_length", "expert_weights_norm"},
     {"output.weight", "blk.1.attn_gate.weight", "blk.1.exp_probs_b.bias"},
     {}},
    {"deepseek32",
     {"attention.indexer.head_count", "attention.indexer.key_length", "attention.indexer.top_k",
      "expert_gating_func", "attention.q_lora_rank"},
     {"blk.0.indexer.attn_k.weight", "blk.0.indexer.k_norm.bias", "blk.0.indexer.proj.weight"},
     {}},
    {"glm-dsa",
     {"attention.indexer.head_count", "attention.indexer.key_length", "attention.indexer.top_k",
      "nextn_predict_layers"},
     {"blk.0.indexer.attn_q_b.weight", "blk.3.nextn.eh_proj.weight"},
     {}},
    {"exaone-moe",
     {"attention.sliding_window", "attention.sliding_window_pattern", "vocab_size",
      "expert_gating_func", "expert_feed_forward_length", "expert_shared_feed_forward_length",
      "expert_weights_scale", "expert_weights_norm", "leading_dense_block_count",
      "nextn_predict_layers", "rope.scaling.type"},
     {"blk.1.exp_probs_b.bias", "blk.0.ffn_up.weight", "blk.4.ffn_up.weight",
      "blk.4.nextn.eh_proj.weight"},
     {}},
    {"afmoe",
     {"attention.sliding_window", "expert_gating_func", "expert_feed_forward_length",
      "expert_shared_count", "leading_dense_block_count", "expert_weights_scale"},
     {"blk.1.exp_probs_b.bias", "blk.0.attn_gate.weight", "blk.0.post_attention_norm.weight",
      "blk.0.post_ffw_norm.weight", "blk.0.ffn_norm.weight"},
     {}},
    {"smallthinker",
     {"attention.sliding_window", "expert_gating_func", "feed_forward_length",
      "expert_feed_forward_length"},
     {"blk.0.ffn_gate_inp.weight"},
     {"expert_weights_norm"}},
    {"grovemoe",
     {"expert_chunk_feed_forward_length", "experts_per_group", "expert_group_scale",
      "expert_feed_forward_length"},
     {"blk.0.ffn_gate_chexps.weight", "blk.0.ffn_up_chexps.weight", "blk.0.ffn_down_chexps.weight"},
     {"expert_gating_func"}},
    {"nemotron_h_moe",
     {"ssm.conv_kernel", "ssm.inner_size", "ssm.state_size", "ssm.time_step_rank",
      "ssm.group_count", "feed_forward_length", "expert_feed_forward_length",
      "expert_shared_feed_forward_length", "expert_weights_norm", "expert_weights_scale"},
     {"blk.0.ssm_a", "blk.0.ssm_d", "blk.0.ssm_dt.bias", "blk.1.exp_probs_b.bias",
      "blk.1.ffn_up_shexp.weight"},
     {"expert_gating_func"}},
    {"granitehybrid",
     {"logit_scale", "ssm.conv_kernel", "ssm.inner_size", "ssm.state_size", "ssm.time_step_rank",
      "ssm.group_count", "rope.scaling.finetuned", "expert_shared_feed_forward_length"},
     {"blk.0.ssm_a", "blk.0.ssm_d", "blk.0.ssm_dt.bias", "blk.1.attn_q.weight"},
     {"expert_gating_func"}},
    {"hy_v3",
     {"expert_gating_func", "expert_feed_forward_length", "expert_shared_feed_forward_length",
      "expert_weights_norm", "expert_weights_scale", "nextn_predict_layers"},
     {"blk.1.exp_probs_b", "blk.0.attn_q_norm.weight", "blk.3.nextn.shared_head_norm.weight"},
     {"leading_dense_block_count"}},
    {"laguna",
     {"attention.sliding_window", "rope.freq_base_swa", "rope.dimension_count_swa",
      "expert_weights_norm", "expert_weights_scale", "expert_feed_forward_length",
      "expert_shared_feed_forward_length", "leading_dense_block_count"},
     {"blk.0.attn_gate.weight", "blk.1.exp_probs_b.bias"},
     {"attention.sliding_window_pattern"}},
    {"lfm2moe",
     {"shortconv.l_cache", "expert_gating_func", "expert_feed_forward_length",
      "leading_dense_block_count"},
     {"token_embd_norm.weight", "blk.0.shortconv.conv.weight", "blk.1.attn_q_norm.weight"},
     {"expert_weights_norm"}},
    {"qwen3vlmoe", {"expert_feed_forward_length", "n_deepstack_layers"}, {"output.weight"}, {}},
    {"phimoe",
     {"rope.scaling.original_context_length", "feed_forward_length"},
     {"output.weight", "output.bias", "output_norm.bias", "blk.0.attn_norm.bias",
      "blk.0.ffn_norm.bias", "blk.0.attn_output.bias"},
     {"rope.scaling.type"}},
};

TEST_P(ConvertedLayout, HasEverythingThatTheRuntimeRequires) {
  const auto found = std::find_if(
      std::begin(kRequirements), std::end(kRequirements),
      [&](const Requirement& row) { return gguf_.architecture() == row.architecture; });
  ASSERT_NE(found, std::end(kRequirements)) << gguf_.architecture();
  std::vector<std::string> absent;
  for (const char* key : found->keys) {
    if (Find(key) == nullptr) absent.push_back(key);
  }
  EXPECT_THAT(absent, IsEmpty());
  for (const char* key : found->absent) EXPECT_EQ(Find(key), nullptr) << key;
  for (const char* name : found->tensors) EXPECT_THAT(Names(), Contains(name));
}

INSTANTIATE_TEST_SUITE_P(All, ConvertedLayout, testing::ValuesIn(ConvertibleLayouts()),
                         [](const auto& one) {
                           std::string name = one.param;
                           for (char& c : name) {
                             c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
                           }
                           return name;
                         });

TEST(ConvertedLayouts, CoverEveryFamilyWithAConverter) {
  std::set<std::string> families, converted;
  for (const std::string& layout : ConvertibleLayouts()) {
    families.insert(fixtures::DescribeCheckpoint(layout).family);
  }
  for (const GgufConverter& row : AllConverters()) converted.emplace(row.family);
  EXPECT_EQ(families, converted);
}

}  // namespace
}  // namespace moepack
