#include "tests/runtime-shim/support/tiny_keys.h"

#include <vector>

namespace moepack::runtime::tiny {

bool IsLatent(const std::string& architecture) {
  for (const char* name : {"deepseek2", "mistral4", "deepseek32", "glm-dsa"})
    if (architecture == name) return true;
  return HasKda(architecture);
}

bool IsHybrid(const std::string& architecture) {
  return architecture == "qwen3next" || architecture == "qwen35moe" || IsGated(architecture);
}

bool HasKda(const std::string& architecture) {
  return architecture == "bailingmoe3" || architecture == "kimi-k3";
}

bool IsGated(const std::string& architecture) { return architecture == "qwen4exp"; }

Keys::Keys(std::string architecture, GgufMetadata& metadata)
    : architecture_(std::move(architecture)),
      metadata_(metadata),
      latent_(IsLatent(architecture_)),
      hybrid_(IsHybrid(architecture_)),
      gated_(IsGated(architecture_)),
      kda_(HasKda(architecture_)) {}

// Of two streams. A token sees two of the blocks of two keys; bigrams and trigrams pick two rows
// each.
void Keys::StreamKeys() {
  Key("hyper_connection.count", GgufValue::U32(kStreams));
  Key("hyper_connection.low_rank", GgufValue::U32(kRank));
  Key("attention.indexer.head_count", GgufValue::U32(2));
  Key("attention.indexer.key_length", GgufValue::U32(kHeadWidth));
  Key("attention.indexer.top_k", GgufValue::U32(4));
  Key("attention.compress_ratios", GgufValue::I32s(std::vector<int32_t>{0, 2}));
  Key("ple.layers", GgufValue::I32s(std::vector<int32_t>{0}));
  Key("ple.ngram_size", GgufValue::U32(3));
  Key("ple.heads_per_ngram", GgufValue::U32(2));
  Key("ple.conv_kernel", GgufValue::U32(2));
  Key("ple.eos_token_id", GgufValue::U32(0));
  Key("embedding_length_per_layer_input", GgufValue::U32(kTableWidth));
  Key("ple.layer_multipliers",
      GgufValue::U64s(std::vector<uint64_t>{4295158889766209, 8433018892997163, 1270917961435}));
  Key("ple.head_offsets", GgufValue::U64s(std::vector<uint64_t>{0, 7, 14, 21}));
  Key("ple.head_vocab_sizes", GgufValue::U64s(std::vector<uint64_t>{7, 5, 7, 7}));
}

void Keys::NemotronKeys() {
  Key("block_count", GgufValue::U32(2 * kLayers));
  Key("attention.head_count_kv", GgufValue::I32s(std::vector<int32_t>{0, 0, 0, kKeyHeads}));
  Key("feed_forward_length", GgufValue::I32s(std::vector<int32_t>{kInner, kInner, 0, 0}));
  Key("attention.key_length", GgufValue::U32(kHeadWidth));
  Key("attention.value_length", GgufValue::U32(kHeadWidth));
  MambaKeys();
  Key("moe_latent_size", GgufValue::U32(kRank));
}

void Keys::MambaKeys() {
  Key("ssm.conv_kernel", GgufValue::U32(4));
  Key("ssm.state_size", GgufValue::U32(kDeltaWidth));
  Key("ssm.group_count", GgufValue::U32(kKeyHeads));
  Key("ssm.time_step_rank", GgufValue::U32(kHeads));
  Key("ssm.inner_size", GgufValue::U32(kHeads * kHeadWidth));
}

// A layer of a recurrence, then one of attention.
void Keys::KeyHeadsOfTheSecondLayer() {
  Key("attention.head_count_kv", GgufValue::I32s(std::vector<int32_t>{0, kKeyHeads}));
}

void Keys::GraniteHybridKeys() {
  KeyHeadsOfTheSecondLayer();
  MambaKeys();
  Key("logit_scale", GgufValue::F32(2));
  Key("residual_scale", GgufValue::F32(0.5f));
  Key("rope.scaling.finetuned", GgufValue::Bool(false));
}

// The second layer has a window of two, and a rope of its own.
void Keys::LagunaKeys() {
  Key("attention.sliding_window", GgufValue::U32(2));
  Key("rope.dimension_count", GgufValue::U32(kHeadWidth / 2));
  Key("rope.dimension_count_swa", GgufValue::U32(kHeadWidth));
  Key("rope.freq_base_swa", GgufValue::F32(100));
}

// Each layer sees four positions.
void Keys::IndexerKeys() {
  Key("attention.indexer.head_count", GgufValue::U32(kKeyHeads));
  Key("attention.indexer.key_length", GgufValue::U32(kHeadWidth));
  Key("attention.indexer.top_k", GgufValue::U32(4));
}

void Keys::Write() {
  Key("block_count", GgufValue::U32(kLayers));
  Key("context_length", GgufValue::U32(128));
  Key("embedding_length", GgufValue::U32(kWidth));
  Key("attention.head_count", GgufValue::U32(kHeads));
  Key("attention.head_count_kv", GgufValue::U32(latent_ ? 1 : kKeyHeads));
  Key("attention.layer_norm_rms_epsilon", GgufValue::F32(1e-5f));
  Key("expert_count", GgufValue::U32(kExperts));
  Key("expert_used_count", GgufValue::U32(2));
  if (Is("granitehybrid")) GraniteHybridKeys();
  if (Is("laguna")) LagunaKeys();
  if (Is("lfm2moe")) {
    KeyHeadsOfTheSecondLayer();
    Key("shortconv.l_cache", GgufValue::U32(3));
  }
  if (Is("granitemoe")) Key("logit_scale", GgufValue::F32(2));
  if (Is("granitemoe")) Key("residual_scale", GgufValue::F32(0.5f));
  if (Is("gpt-oss")) Key("attention.sliding_window", GgufValue::U32(3));
  if (Is("exaone-moe") || Is("afmoe") || Is("smallthinker"))
    Key("attention.sliding_window", GgufValue::U32(3));
  if (Is("exaone-moe")) Key("attention.sliding_window_pattern", GgufValue::Bools({true, false}));
  if (Is("grovemoe")) Key("experts_per_group", GgufValue::U32(2));
  if (Is("grovemoe")) Key("expert_group_scale", GgufValue::F32(0.5f));
  const bool gating = Is("minimax-m2") || Is("minimax-m3") || Is("dots1") || Is("bailingmoe2") ||
                      Is("step35") || Is("exaone-moe") || Is("smallthinker") || Is("hy_v3") ||
                      Is("laguna") || Is("lfm2moe") || (latent_ && !Is("mistral4"));
  if (gating) Key("expert_gating_func", GgufValue::U32(2));
  if (hybrid_) HybridKeys();
  if (gated_) StreamKeys();
  if (Is("mimo2")) MimoKeys();
  if (Is("step35")) StepKeys();
  if (Is("nemotron_h_moe")) NemotronKeys();
  if (Is("gemma4")) GemmaKeys();
  if (kda_) KdaKeys();
  if (Is("kimi-k3")) KimiKeys();
  if (Is("minimax-m3")) BlockKeys();
  if (Is("deepseek4")) CompressedKeys();
  if (Is("cohere2moe")) CommandKeys();
  if (Is("deepseek32")) Key("attention.indexer.top_k", GgufValue::U32(64));
  if (Is("glm-dsa")) IndexerKeys();
  if (Is("glm4moe") || Is("hy_v3") || Is("laguna") || latent_)
    Key("expert_weights_norm", GgufValue::Bool(true));
  if (!latent_) return;
  Key("rope.dimension_count", GgufValue::U32(kRotated));
  Key("attention.key_length_mla", GgufValue::U32(kNope + kRotated));
  Key("attention.value_length_mla", GgufValue::U32(kValueWidth));
  Key("attention.kv_lora_rank", GgufValue::U32(kRank));
}

void Keys::HybridKeys() {
  Key("ssm.conv_kernel", GgufValue::U32(4));
  Key("ssm.state_size", GgufValue::U32(kDeltaWidth));
  Key("ssm.group_count", GgufValue::U32(kKeyHeads));
  Key("ssm.time_step_rank", GgufValue::U32(kHeads));
  Key("ssm.inner_size", GgufValue::U32(kHeads * kDeltaWidth));
  Key("full_attention_interval", GgufValue::U32(2));
  Key("rope.dimension_count", GgufValue::U32(4));
}

// The first layer has Kimi delta attention, the second latent attention; Ling's have limits.
void Keys::KdaKeys() {
  Key("attention.head_count_kv", GgufValue::I32s(std::vector<int32_t>{0, 1}));
  Key("ssm.conv_kernel", GgufValue::U32(4));
  Key("kda.head_dim", GgufValue::U32(kDeltaWidth));
  Key("kda.gate_lower_bound", GgufValue::F32(-5));
  if (Is("kimi-k3")) return;
  Key("swiglu_clamp_exp", GgufValue::F32s(std::vector<float>{0, 1}));
  Key("swiglu_clamp_shexp", GgufValue::F32s(std::vector<float>{0.2f, 0}));
}

// Each layer keeps the stream before it.
void Keys::KimiKeys() {
  Key("attn_res.block_size", GgufValue::U32(1));
  Key("expert_latent_length", GgufValue::U32(kRank));
  Key("activation.situ_beta", GgufValue::F32(2));
  Key("activation.situ_linear_beta", GgufValue::F32(3));
}

// The first layer compresses keys and picks one of them, and a table names its experts.
void Keys::CompressedKeys() {
  const std::pair<const char*, uint32_t> numbers[] = {{"attention.head_count_kv", 1},
                                                      {"attention.key_length", kHeadWidth},
                                                      {"attention.value_length", kHeadWidth},
                                                      {"attention.sliding_window", 3},
                                                      {"attention.output_group_count", kGroups},
                                                      {"attention.output_lora_rank", kGroupRank},
                                                      {"attention.indexer.head_count", kKeyHeads},
                                                      {"attention.indexer.key_length", kHeadWidth},
                                                      {"attention.indexer.top_k", 1},
                                                      {"rope.dimension_count", kRotated},
                                                      {"hyper_connection.count", kStreams},
                                                      {"hyper_connection.sinkhorn_iterations", 3},
                                                      {"hash_layer_count", 1},
                                                      {"expert_gating_func", 4}};
  for (const auto& [key, number] : numbers) Key(key, GgufValue::U32(number));
  Key("attention.compress_ratios", GgufValue::I32s(std::vector<int32_t>{4, 0, 0}));
  Key("attention.compress_rope_freq_base", GgufValue::F32(100));
  Key("hyper_connection.epsilon", GgufValue::F32(1e-6f));
  Key("expert_weights_norm", GgufValue::Bool(true));
  Key("swiglu_clamp_exp", GgufValue::F32s(std::vector<float>{0.3f, 0}));
  Key("swiglu_clamp_shexp", GgufValue::F32s(std::vector<float>{0, 0.2f}));
}

// A token sees two of the blocks of two keys.
void Keys::BlockKeys() {
  Key("attention.indexer.head_count", GgufValue::U32(kKeyHeads));
  Key("attention.indexer.key_length", GgufValue::U32(kHeadWidth));
  Key("attention.indexer.block_size", GgufValue::U32(2));
  Key("attention.indexer.top_k", GgufValue::U32(2));
  Key("attention.indexer.local_blocks", GgufValue::U32(1));
}

// The second layer has a window of three, and rotates.
void Keys::CommandKeys() {
  Key("attention.sliding_window", GgufValue::U32(3));
  Key("attention.sliding_window_pattern", GgufValue::Bools({false, true}));
  Key("logit_scale", GgufValue::F32(0.25f));
  Key("expert_shared_count", GgufValue::U32(1));
}

// The second layer has a window of two and half of the key heads.
void Keys::MimoKeys() {
  Key("attention.head_count_kv", GgufValue::I32s(std::vector<int32_t>{kKeyHeads, 1}));
  Key("attention.sliding_window", GgufValue::U32(2));
  Key("attention.sliding_window_pattern", GgufValue::I32s(std::vector<int32_t>{0, 1}));
  Key("attention.key_length", GgufValue::U32(kHeadWidth));
  Key("attention.value_length", GgufValue::U32(kValueWidth));
  Key("attention.value_scale", GgufValue::F32(0.7f));
  Key("rope.freq_base_swa", GgufValue::F32(100));
}

// The second layer has a window of two, half of the key heads, and limits.
void Keys::StepKeys() {
  Key("attention.head_count_kv", GgufValue::I32s(std::vector<int32_t>{kKeyHeads, 1}));
  Key("attention.sliding_window", GgufValue::U32(2));
  Key("attention.sliding_window_pattern", GgufValue::Bools({false, true}));
  Key("attention.key_length", GgufValue::U32(kHeadWidth));
  Key("attention.value_length", GgufValue::U32(kHeadWidth));
  Key("rope.freq_base_swa", GgufValue::F32(100));
  Key("swiglu_clamp_exp", GgufValue::F32s(std::vector<float>{0, 0.3f}));
  Key("swiglu_clamp_shexp", GgufValue::F32s(std::vector<float>{0, 0.2f}));
}

// The first layer has a window of two, the second half of the key heads, twice as wide.
void Keys::GemmaKeys() {
  Key("attention.head_count_kv", GgufValue::I32s(std::vector<int32_t>{kKeyHeads, 1}));
  Key("attention.sliding_window", GgufValue::U32(2));
  Key("attention.sliding_window_pattern", GgufValue::Bools({true, false}));
  for (const char* kind : {"key", "value"}) {
    Key((std::string("attention.") + kind + "_length").c_str(), GgufValue::U32(2 * kHeadWidth));
    Key((std::string("attention.") + kind + "_length_swa").c_str(), GgufValue::U32(kHeadWidth));
  }
  Key("rope.freq_base_swa", GgufValue::F32(100));
  Key("final_logit_softcapping", GgufValue::F32(3));
}

}  // namespace moepack::runtime::tiny
