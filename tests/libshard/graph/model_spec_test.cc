#include "libshard/graph/model_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace moepack {
namespace {

using testing::HasSubstr;

GgufMetadata Keys(const std::string& architecture) {
  GgufMetadata keys;
  const auto set = [&](const std::string& key, GgufValue value) {
    keys.Set(architecture + "." + key, std::move(value));
  };
  keys.Set("general.architecture", GgufValue::String(architecture));
  set("block_count", GgufValue::U32(8));
  set("context_length", GgufValue::U32(2048));
  set("embedding_length", GgufValue::U32(256));
  set("attention.head_count", GgufValue::U32(8));
  set("attention.head_count_kv", GgufValue::U32(2));
  set("attention.layer_norm_rms_epsilon", GgufValue::F32(1e-5f));
  set("expert_count", GgufValue::U32(16));
  set("expert_used_count", GgufValue::U32(2));
  return keys;
}

ModelSpec Read(const GgufMetadata& keys) {
  auto spec = ReadModelSpec("m.gguf", keys);
  EXPECT_TRUE(spec.has_value()) << (spec ? "" : spec.error().message);
  return spec ? *spec : ModelSpec{};
}

std::string MessageOf(const GgufMetadata& keys) {
  const auto spec = ReadModelSpec("m.gguf", keys);
  return spec ? "no error" : spec.error().message;
}

TEST(ModelSpec, DerivesMissingWidthsFromTheEmbedding) {
  const ModelSpec spec = Read(Keys("qwen3moe"));
  EXPECT_EQ(spec.layers, 8u);
  EXPECT_EQ(spec.key_width, 32u);
  EXPECT_EQ(spec.value_width, 32u);
  EXPECT_EQ(spec.rope.dims, 32u);
  EXPECT_EQ(spec.rope.pairing, Pairing::kHalves);
  EXPECT_FLOAT_EQ(spec.attention_scale, 1 / std::sqrt(32.0f));
  ASSERT_EQ(spec.layer.size(), 8u);
  EXPECT_EQ(spec.layer[7].router.top_k, 2u);
  EXPECT_EQ(spec.layer[7].router.gating, Gating::kSoftmax);
  EXPECT_TRUE(spec.layer[7].router.normalize);
}

TEST(ModelSpec, LeavesOutBlocksForMultiTokenPrediction) {
  GgufMetadata keys = Keys("glm4moe");
  keys.Set("glm4moe.nextn_predict_layers", GgufValue::U32(1));
  const ModelSpec spec = Read(keys);
  EXPECT_EQ(spec.layers, 7u);
  EXPECT_EQ(spec.layer.size(), 7u);
}

TEST(ModelSpec, ReadsTopKOfEachLayer) {
  GgufMetadata keys = Keys("qwen3moe");
  const std::vector<uint32_t> counts = {1, 2, 3, 4, 5, 6, 7, 8};
  keys.Set("qwen3moe.expert_used_count", GgufValue::U32s(counts));
  const ModelSpec spec = Read(keys);
  EXPECT_EQ(spec.layer[0].router.top_k, 1u);
  EXPECT_EQ(spec.layer[7].router.top_k, 8u);
}

TEST(ModelSpec, GivesEachFamilyItsRouting) {
  struct Case {
    const char* architecture;
    Gating gating;
    bool normalize;
  };
  const Case cases[] = {
      {"llama", Gating::kSoftmax, true},      {"qwen2moe", Gating::kSoftmax, false},
      {"qwen3moe", Gating::kSoftmax, true},   {"olmoe", Gating::kSoftmax, false},
      {"glm4moe", Gating::kSigmoid, false},   {"gpt-oss", Gating::kSoftmaxAfterTopK, false},
      {"phimoe", Gating::kSoftmax, true},     {"llama4", Gating::kSigmoidAfterTopK, false},
      {"granitemoe", Gating::kSoftmax, true}, {"minimax-m2", Gating::kSigmoid, true},
  };
  for (const Case& one : cases) {
    GgufMetadata keys = Keys(one.architecture);
    const std::string prefix = std::string(one.architecture) + ".";
    if (prefix == "minimax-m2.") keys.Set(prefix + "expert_gating_func", GgufValue::U32(2));
    if (prefix == "granitemoe.") keys.Set(prefix + "logit_scale", GgufValue::F32(8));
    if (prefix == "gpt-oss.") keys.Set(prefix + "attention.sliding_window", GgufValue::U32(128));
    const ModelSpec spec = Read(keys);
    ASSERT_FALSE(spec.layer.empty()) << one.architecture;
    EXPECT_EQ(spec.layer[0].router.gating, one.gating) << one.architecture;
    EXPECT_EQ(spec.layer[0].router.normalize, one.normalize) << one.architecture;
  }
}

TEST(ModelSpec, GptOssAlternatesWindowAndFullAttention) {
  GgufMetadata keys = Keys("gpt-oss");
  keys.Set("gpt-oss.attention.sliding_window", GgufValue::U32(128));
  const ModelSpec spec = Read(keys);
  EXPECT_EQ(spec.layer[0].window, 128u);
  EXPECT_EQ(spec.layer[1].window, 0u);
  EXPECT_EQ(spec.layer[2].window, 128u);
  EXPECT_EQ(spec.expert_activation, Activation::kClampedSilu);
  EXPECT_STREQ(spec.second_norm, "post_attention_norm");
}

TEST(ModelSpec, Llama4SkipsRotationInEveryFourthLayerAndChunksTheOthers) {
  const ModelSpec spec = Read(Keys("llama4"));
  EXPECT_TRUE(spec.layer[0].rope);
  EXPECT_EQ(spec.layer[0].chunk, 8192u);
  EXPECT_FALSE(spec.layer[3].rope);
  EXPECT_EQ(spec.layer[3].chunk, 0u);
  EXPECT_TRUE(spec.weigh_inputs);
  EXPECT_TRUE(spec.norm_heads_after_rope);
  GgufMetadata maverick = Keys("llama4");
  maverick.Set("llama4.expert_count", GgufValue::U32(128));
  EXPECT_FALSE(Read(maverick).norm_heads_after_rope);
  GgufMetadata window = Keys("llama4");
  window.Set("llama4.attention.sliding_window", GgufValue::U32(512));
  EXPECT_EQ(Read(window).layer[0].chunk, 8192u) << "llama.cpp uses its own number";
}

TEST(ModelSpec, RefusesTheWindowOf0WithWhichLlamaCppAbortsOnLlama4) {
  GgufMetadata keys = Keys("llama4");
  keys.Set("llama4.attention.sliding_window", GgufValue::U32(0));
  EXPECT_EQ(MessageOf(keys),
            "m.gguf: llama4.attention.sliding_window: expected no such key, or more than 0, "
            "found 0");
}

GgufMetadata Hybrid(const std::string& architecture) {
  GgufMetadata keys = Keys(architecture);
  const std::pair<const char*, uint32_t> numbers[] = {{"conv_kernel", 4},
                                                      {"state_size", 8},
                                                      {"group_count", 2},
                                                      {"time_step_rank", 4},
                                                      {"inner_size", 32}};
  for (const auto& [key, number] : numbers)
    keys.Set(architecture + ".ssm." + key, GgufValue::U32(number));
  return keys;
}

TEST(ModelSpec, ReadsRecurrentLayersOfQwenHybridsFromAListOrAnInterval) {
  GgufMetadata keys = Hybrid("qwen3next");
  const ModelSpec spec = Read(keys);
  EXPECT_EQ(spec.delta, (DeltaShape{2, 4, 8, 4, false}));
  EXPECT_TRUE(spec.gated_queries);
  EXPECT_TRUE(spec.layer[0].recurrent);
  EXPECT_FALSE(spec.layer[3].recurrent);
  EXPECT_TRUE(Read(Hybrid("qwen35moe")).delta.tiled);
  std::vector<bool> listed(8, false);
  listed[3] = true;
  keys.Set("qwen3next.attention.recurrent_layers", GgufValue::Bools(listed));
  EXPECT_FALSE(Read(keys).layer[0].recurrent);
  EXPECT_TRUE(Read(keys).layer[3].recurrent);
}

TEST(ModelSpec, RefusesSizesOfDeltaNetsThatDoNotFit) {
  GgufMetadata keys = Hybrid("qwen3next");
  keys.Set("qwen3next.ssm.time_step_rank", GgufValue::U32(3));
  EXPECT_EQ(MessageOf(keys),
            "m.gguf: qwen3next.ssm.time_step_rank: expected a multiple of 2, found 3");
  keys = Hybrid("qwen3next");
  keys.Set("qwen3next.ssm.inner_size", GgufValue::U32(33));
  EXPECT_EQ(MessageOf(keys),
            "m.gguf: qwen3next.ssm.inner_size: expected 32 (heads x size of the state), found 33");
  keys = Hybrid("qwen3next");
  keys.Set("qwen3next.attention.recurrent_layers", GgufValue::Bools({true}));
  EXPECT_EQ(MessageOf(keys),
            "m.gguf: qwen3next.attention.recurrent_layers: expected a list of 8 bools, found an "
            "array of 1");
}

// Eight layers: Mamba, experts, attention, and Mamba again.
GgufMetadata Nemotron() {
  GgufMetadata keys = Hybrid("nemotron_h_moe");
  keys.Set("nemotron_h_moe.attention.head_count_kv",
           GgufValue::I32s(std::vector<int32_t>{0, 0, 2, 0, 0, 0, 0, 0}));
  keys.Set("nemotron_h_moe.feed_forward_length",
           GgufValue::I32s(std::vector<int32_t>{0, 9, 0, 0, 0, 0, 0, 0}));
  return keys;
}

TEST(ModelSpec, EveryNemotronLayerHasASingleKind) {
  GgufMetadata keys = Nemotron();
  const ModelSpec spec = Read(keys);
  EXPECT_EQ(spec.mamba, (MambaShape{4, 8, 2, 8, 4}));
  EXPECT_TRUE(spec.layer[0].recurrent && spec.layer[0].mixes && !spec.layer[0].feeds);
  EXPECT_TRUE(!spec.layer[1].mixes && spec.layer[1].feeds);
  EXPECT_TRUE(!spec.layer[2].recurrent && spec.layer[2].mixes && !spec.layer[2].feeds);
  EXPECT_FALSE(spec.layer[2].rope);
  EXPECT_FALSE(spec.gated_mlps);
  EXPECT_EQ(spec.expert_width(), spec.width);
  keys.Set("nemotron_h_moe.moe_latent_size", GgufValue::U32(6));
  EXPECT_EQ(Read(keys).expert_width(), 6u);
}

TEST(ModelSpec, NeedsUsedExpertsOnlyInLayersThatHaveSome) {
  GgufMetadata keys = Nemotron();
  keys.Set("nemotron_h_moe.expert_used_count",
           GgufValue::I32s(std::vector<int32_t>{0, 3, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(Read(keys).layer[1].router.top_k, 3u);
  keys.Set("nemotron_h_moe.expert_used_count",
           GgufValue::I32s(std::vector<int32_t>{2, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(MessageOf(keys),
            "m.gguf: nemotron_h_moe.expert_used_count: expected at least 1, found 0");
}

TEST(ModelSpec, RefusesLayersAndSizesOfMambaThatDoNotFit) {
  GgufMetadata keys = Nemotron();
  keys.Set("nemotron_h_moe.feed_forward_length",
           GgufValue::I32s(std::vector<int32_t>{0, 0, 9, 0, 0, 0, 0, 0}));
  EXPECT_EQ(MessageOf(keys),
            "m.gguf: nemotron_h_moe.attention.head_count_kv: expected 0 in layer 2, which has "
            "experts, found 2");
  keys = Nemotron();
  keys.Set("nemotron_h_moe.ssm.time_step_rank", GgufValue::U32(3));
  EXPECT_EQ(MessageOf(keys),
            "m.gguf: nemotron_h_moe.ssm.time_step_rank: expected a multiple of 2, found 3");
  keys = Nemotron();
  keys.Set("nemotron_h_moe.ssm.inner_size", GgufValue::U32(33));
  EXPECT_EQ(MessageOf(keys),
            "m.gguf: nemotron_h_moe.ssm.inner_size: expected a multiple of 4, found 33");
  keys = Nemotron();
  keys.Set("nemotron_h_moe.ssm.group_count", GgufValue::U32(1 << 10));
  keys.Set("nemotron_h_moe.ssm.time_step_rank", GgufValue::U32(1 << 10));
  keys.Set("nemotron_h_moe.ssm.inner_size", GgufValue::U32(1 << 10));
  keys.Set("nemotron_h_moe.ssm.state_size", GgufValue::U32(1 << 22));
  EXPECT_EQ(MessageOf(keys),
            "m.gguf: nemotron_h_moe.ssm.state_size: expected a size that fits, found 4194304");
}

TEST(ModelSpec, CommandRotatesLayersWithAWindowAndLeadingDenseOnes) {
  GgufMetadata keys = Keys("cohere2moe");
  keys.Set("cohere2moe.attention.sliding_window", GgufValue::U32(16));
  keys.Set("cohere2moe.attention.sliding_window_pattern",
           GgufValue::Bools({false, true, true, false, false, true, true, false}));
  keys.Set("cohere2moe.leading_dense_block_count", GgufValue::U32(1));
  keys.Set("cohere2moe.logit_scale", GgufValue::F32(0.25f));
  const ModelSpec spec = Read(keys);
  EXPECT_TRUE(spec.one_norm);
  EXPECT_EQ(spec.logit_scale, 0.25f);
  EXPECT_EQ(spec.rope.pairing, Pairing::kNeighbours);
  EXPECT_EQ(spec.ScaleOfExperts(), 1) << "no shared experts";
  for (const uint32_t layer : {0u, 1u, 5u}) EXPECT_TRUE(spec.layer[layer].rope) << layer;
  for (const uint32_t layer : {3u, 4u, 7u}) EXPECT_FALSE(spec.layer[layer].rope) << layer;
  EXPECT_EQ(spec.layer[0].window, 0u);
  EXPECT_EQ(spec.layer[1].window, 16u);
  keys.Set("cohere2moe.expert_shared_count", GgufValue::U32(4));
  EXPECT_EQ(Read(keys).ScaleOfExperts(), 0.5f) << "an average";
  GgufMetadata centred = Keys("cohere2moe");
  centred.Remove("cohere2moe.attention.layer_norm_rms_epsilon");
  centred.Set("cohere2moe.attention.layer_norm_epsilon", GgufValue::F32(1e-5f));
  EXPECT_THAT(MessageOf(centred), HasSubstr("LayerNorm does not run in the runtime shim"));
}

TEST(ModelSpec, MinimaxM3PicksBlocksInLayersWithExperts) {
  GgufMetadata keys = Keys("minimax-m3");
  const std::pair<const char*, uint32_t> numbers[] = {{"expert_gating_func", 2},
                                                      {"leading_dense_block_count", 3},
                                                      {"attention.indexer.head_count", 2},
                                                      {"attention.indexer.key_length", 32},
                                                      {"attention.indexer.block_size", 128},
                                                      {"attention.indexer.top_k", 16},
                                                      {"attention.indexer.local_blocks", 1}};
  for (const auto& [key, number] : numbers)
    keys.Set(std::string("minimax-m3.") + key, GgufValue::U32(number));
  const ModelSpec spec = Read(keys);
  EXPECT_EQ(spec.blocks, (BlockShape{2, 32, 128, 16, 1}));
  EXPECT_FALSE(spec.layer[2].picks_blocks);
  EXPECT_TRUE(spec.layer[3].picks_blocks);
  keys.Set("minimax-m3.attention.indexer.head_count", GgufValue::U32(4));
  EXPECT_THAT(MessageOf(keys), HasSubstr("an indexer with 4 heads for 2 key heads does not run"));
}

GgufMetadata DeepseekV4Keys() {
  GgufMetadata keys = Keys("deepseek4");
  const std::pair<const char*, uint32_t> numbers[] = {{"attention.head_count_kv", 1},
                                                      {"attention.sliding_window", 128},
                                                      {"attention.output_group_count", 2},
                                                      {"attention.output_lora_rank", 16},
                                                      {"attention.indexer.head_count", 2},
                                                      {"attention.indexer.key_length", 64},
                                                      {"attention.indexer.top_k", 8},
                                                      {"rope.dimension_count", 8},
                                                      {"hyper_connection.count", 4},
                                                      {"hyper_connection.sinkhorn_iterations", 20},
                                                      {"hash_layer_count", 3},
                                                      {"expert_gating_func", 4}};
  for (const auto& [key, number] : numbers)
    keys.Set(std::string("deepseek4.") + key, GgufValue::U32(number));
  keys.Set("deepseek4.attention.compress_ratios",
           GgufValue::I32s(std::vector<int32_t>{0, 0, 4, 128, 4, 128, 4, 0, 0}));
  keys.Set("deepseek4.attention.compress_rope_freq_base", GgufValue::F32(160000));
  keys.Set("deepseek4.hyper_connection.epsilon", GgufValue::F32(1e-6f));
  keys.Set("deepseek4.rope.scaling.type", GgufValue::String("yarn"));
  keys.Set("deepseek4.rope.scaling.factor", GgufValue::F32(16));
  keys.Set("deepseek4.swiglu_clamp_exp", GgufValue::F32s(std::vector<float>(8, 10)));
  return keys;
}

TEST(ModelSpec, DeepseekV4CompressesKeysInSomeLayersAndNamesExpertsInTheFirst) {
  const ModelSpec spec = Read(DeepseekV4Keys());
  EXPECT_EQ(spec.compressed, (CompressedShape{2, 16}));
  EXPECT_EQ(spec.indexer, (IndexerShape{2, 64, 8, 8}));
  EXPECT_EQ(spec.streams, (StreamShape{4, 20, 1e-6f}));
  EXPECT_EQ(spec.stream_width(), 4 * 256u);
  EXPECT_TRUE(spec.layer[2].routes_by_table);
  EXPECT_FALSE(spec.layer[3].routes_by_table);
  EXPECT_EQ(spec.CompressorOf(2), (CompressorShape{4, 32, true}));
  EXPECT_EQ(spec.IndexCompressorOf(2), (CompressorShape{4, 64, true}));
  EXPECT_EQ(spec.CompressorOf(3), (CompressorShape{128, 32, false}));
  EXPECT_EQ(spec.IndexCompressorOf(3).rows(), 0u);
  EXPECT_EQ(spec.CompressorOf(0).columns(), 0u);
  EXPECT_EQ(spec.RopeOf(0).base, 10000);
  EXPECT_EQ(spec.RopeOf(0).yarn_mix, 0);
  EXPECT_EQ(spec.RopeOf(2).base, 160000);
  EXPECT_EQ(spec.RopeOf(2).yarn_mix, 1);
  EXPECT_EQ(spec.RopeOf(2).attention_factor, 1);
  EXPECT_EQ(spec.ExpertActivationOf(1), Activation(Activation::kSiluOfLimited, 10));
  EXPECT_EQ(spec.MlpActivationOf(1), Activation(Activation::kSilu));
}

TEST(ModelSpec, DeepseekV4RefusesSizesThatDoNotFit) {
  const auto message_with = [](const char* key, GgufValue value) {
    GgufMetadata keys = DeepseekV4Keys();
    keys.Set(std::string("deepseek4.") + key, std::move(value));
    return MessageOf(keys);
  };
  EXPECT_THAT(
      message_with("attention.compress_ratios", GgufValue::I32s(std::vector<int32_t>(8, 7))),
      HasSubstr("attention.compress_ratios: expected 0, 4 or 128, found 7"));
  EXPECT_THAT(message_with("attention.head_count_kv", GgufValue::U32(2)),
              HasSubstr("attention with 2 key heads does not run in the runtime shim"));
  EXPECT_THAT(message_with("attention.value_length", GgufValue::U32(16)),
              HasSubstr("attention.value_length: expected 32, as keys are values, found 16"));
  EXPECT_THAT(message_with("attention.output_group_count", GgufValue::U32(3)),
              HasSubstr("attention.output_group_count: expected a divisor of 8, found 3"));
  EXPECT_THAT(message_with("attention.indexer.key_length", GgufValue::U32(4)),
              HasSubstr("attention.indexer.key_length: expected at least 8, found 4"));
  EXPECT_THAT(message_with("hash_layer_count", GgufValue::U32(9)),
              HasSubstr("hash_layer_count: expected at most 8, found 9"));
  EXPECT_THAT(message_with("hyper_connection.count", GgufValue::U32(65)),
              HasSubstr("hyper_connection.count: expected at most 64, found 65"));
  EXPECT_THAT(message_with("hyper_connection.sinkhorn_iterations", GgufValue::U32(1001)),
              HasSubstr("sinkhorn_iterations: expected at most 1000, found 1001"));
}

TEST(ModelSpec, WindowsOfMimoAndStepHaveTheirOwnRope) {
  for (const std::string name : {"mimo2", "step35"}) {
    GgufMetadata keys = Keys(name);
    EXPECT_EQ(
        MessageOf(keys),
        "m.gguf: " + name + ".attention.sliding_window: expected a number, found no such key");
    keys.Set(name + ".attention.sliding_window", GgufValue::U32(5));
    EXPECT_EQ(MessageOf(keys),
              "m.gguf: " + name +
                  ".attention.sliding_window_pattern: expected a list of bools, found "
                  "none");
    keys.Set(name + ".attention.sliding_window_pattern",
             GgufValue::I32s(std::vector<int32_t>{0, 1, 1, 1, 0, 1, 1, 1}));
    keys.Set(name + ".rope.freq_base_swa", GgufValue::F32(100));
    const ModelSpec spec = Read(keys);
    EXPECT_EQ(spec.layer[0].window, 0u);
    EXPECT_EQ(spec.layer[1].window, 5u);
    EXPECT_EQ(spec.RopeOf(1).base, 100);
    EXPECT_EQ(spec.RopeOf(0).base, 10000);
    // Step-3.5 rotates half of a head in layers with full attention.
    EXPECT_EQ(spec.RopeOf(0).dims,
              name == "step35" ? spec.RopeOf(1).dims / 2 : spec.RopeOf(1).dims);
  }
}

TEST(ModelSpec, StepLimitsActivationsLayerByLayer) {
  GgufMetadata keys = Keys("step35");
  keys.Set("step35.attention.sliding_window", GgufValue::U32(5));
  keys.Set("step35.attention.sliding_window_pattern", GgufValue::Bools(std::vector<bool>(8)));
  EXPECT_EQ(Read(keys).layer[0].expert_limit, 0);
  // llama.cpp reads the second value as no limit.
  const std::vector<float> limits = {7, 1e-7f, 0, 0, 0, 0, 0, 2};
  keys.Set("step35.swiglu_clamp_exp", GgufValue::F32s(limits));
  keys.Set("step35.swiglu_clamp_shexp", GgufValue::F32s(std::vector<float>(8, 3)));
  const ModelSpec spec = Read(keys);
  EXPECT_EQ(spec.layer[0].expert_limit, 7);
  EXPECT_EQ(spec.layer[1].expert_limit, 0);
  EXPECT_EQ(spec.layer[7].expert_limit, 2);
  EXPECT_EQ(spec.layer[1].mlp_limit, 3);
  keys.Set("step35.swiglu_clamp_exp", GgufValue::F32s(std::vector<float>(2)));
  EXPECT_EQ(
      MessageOf(keys),
      "m.gguf: step35.swiglu_clamp_exp: expected a list of 8 finite f32, found an array of 2");
}

GgufMetadata Latent() {
  GgufMetadata keys = Keys("deepseek2");
  keys.Set("deepseek2.attention.key_length_mla", GgufValue::U32(48));
  keys.Set("deepseek2.attention.value_length_mla", GgufValue::U32(24));
  keys.Set("deepseek2.attention.kv_lora_rank", GgufValue::U32(64));
  keys.Set("deepseek2.rope.dimension_count", GgufValue::U32(16));
  return keys;
}

TEST(ModelSpec, DeepseekHasOneLatentKeyHead) {
  const ModelSpec spec = Read(Latent());
  EXPECT_EQ(spec.key_heads, 1u);
  EXPECT_EQ(spec.key_width, 48u);
  EXPECT_EQ(spec.latent, (ModelSpec::Latent{64, 32, 24}));
  EXPECT_FLOAT_EQ(spec.attention_scale, 1 / std::sqrt(48.0f));
  EXPECT_EQ(spec.rope.pairing, Pairing::kNeighbours);
}

// The keys of latent attention for another architecture.
GgufMetadata LatentOf(const std::string& name) {
  GgufMetadata keys = Keys(name);
  const GgufMetadata latent = Latent();
  for (const GgufEntry& entry : latent.entries()) {
    if (entry.key.starts_with("deepseek2.attention") || entry.key.starts_with("deepseek2.rope"))
      keys.Set(name + entry.key.substr(entry.key.find('.')), entry.value);
  }
  return keys;
}

TEST(ModelSpec, LimitsDeepseekV32ToContextsThatItsIndexerKeepsWhole) {
  GgufMetadata keys = LatentOf("deepseek32");
  EXPECT_EQ(MessageOf(keys),
            "m.gguf: deepseek32.attention.indexer.top_k: expected a number, found no such key");
  keys.Set("deepseek32.attention.indexer.top_k", GgufValue::U32(16));
  const ModelSpec spec = Read(keys);
  EXPECT_EQ(spec.context, 16u);
  EXPECT_TRUE(spec.unused_indexer);
  EXPECT_TRUE(spec.is_latent());
}

TEST(ModelSpec, LayersOfGlmShareAnIndexerWhereAKeyOrTheContextSaysSo) {
  GgufMetadata keys = LatentOf("glm-dsa");
  EXPECT_EQ(MessageOf(keys),
            "m.gguf: glm-dsa.attention.indexer.head_count: expected a number, found no such key");
  keys.Set("glm-dsa.attention.indexer.head_count", GgufValue::U32(2));
  keys.Set("glm-dsa.attention.indexer.key_length", GgufValue::U32(8));
  keys.Set("glm-dsa.attention.indexer.top_k", GgufValue::U32(4));
  EXPECT_EQ(MessageOf(keys),
            "m.gguf: glm-dsa.attention.indexer.key_length: expected at least 16, found 8");
  keys.Set("glm-dsa.attention.indexer.key_length", GgufValue::U32(64));
  keys.Set("glm-dsa.block_count", GgufValue::U32(5));
  const auto own = [&] {
    std::string letters;
    for (const LayerSpec& layer : Read(keys).layer) letters += layer.own_indexer ? 'o' : 's';
    return letters;
  };
  EXPECT_EQ(Read(keys).indexer, (IndexerShape{2, 64, 4, 16}));
  EXPECT_EQ(own(), "ooooo");
  keys.Set("glm-dsa.context_length", GgufValue::U32(1 << 20));
  EXPECT_EQ(own(), "oooss");
  keys.Set("glm-dsa.attention.indexer.types", GgufValue::Bools({true, false, true, false, true}));
  EXPECT_EQ(own(), "ososo");
  keys.Set("glm-dsa.attention.indexer.types", GgufValue::Bools({false, true, true, true, true}));
  EXPECT_EQ(MessageOf(keys),
            "m.gguf: glm-dsa.attention.indexer.types: expected an indexer in the first layer, "
            "found none");
}

// With YaRN and a logarithmic multiplier m, the magnitude 1 + 0.1 m ln(factor) is squared into the
// attention scale, and the rotation has none.
TEST(ModelSpec, DeepseekMovesTheYarnMagnitudeIntoTheAttentionScale) {
  GgufMetadata keys = Latent();
  keys.Set("deepseek2.rope.scaling.type", GgufValue::String("yarn"));
  keys.Set("deepseek2.rope.scaling.factor", GgufValue::F32(40));
  keys.Set("deepseek2.rope.scaling.yarn_log_multiplier", GgufValue::F32(0.1f));
  const ModelSpec spec = Read(keys);
  const float magnitude = 1 + 0.1f * std::log(40.0f);
  EXPECT_NEAR(spec.rope.attention_factor, 1, 1e-6);
  EXPECT_NEAR(spec.attention_scale, magnitude * magnitude / std::sqrt(48.0f), 1e-6);
}

TEST(ModelSpec, YarnWithoutAMultiplierScalesTheRotation) {
  GgufMetadata keys = Keys("qwen3moe");
  keys.Set("qwen3moe.rope.scaling.type", GgufValue::String("yarn"));
  keys.Set("qwen3moe.rope.scaling.factor", GgufValue::F32(4));
  const ModelSpec spec = Read(keys);
  EXPECT_NEAR(spec.rope.attention_factor, 1 + 0.1 * std::log(4.0), 1e-6);
  EXPECT_EQ(spec.rope.yarn_mix, 1);
  EXPECT_EQ(spec.rope.frequency_scale, 0.25f);
}

TEST(ModelSpec, RefusesUnsupportedArchitectures) {
  const auto spec = ReadModelSpec("m.gguf", Keys("jamba"));
  ASSERT_FALSE(spec.has_value());
  EXPECT_EQ(spec.error().code, Code::kUnsupported);
  EXPECT_EQ(spec.error().message,
            "m.gguf: architecture: expected one that the runtime shim runs, found \"jamba\"");
  EXPECT_THAT(spec.error().hint, HasSubstr("qwen3moe (Qwen3-MoE)"));
}

TEST(ModelSpec, NamesAMissingOrInvalidKey) {
  GgufMetadata keys = Keys("qwen3moe");
  keys.Remove("qwen3moe.embedding_length");
  EXPECT_EQ(MessageOf(keys),
            "m.gguf: qwen3moe.embedding_length: expected a number, found no such key");
  keys = Keys("qwen3moe");
  keys.Set("qwen3moe.attention.head_count_kv", GgufValue::U32(3));
  EXPECT_EQ(MessageOf(keys),
            "m.gguf: qwen3moe.attention.head_count_kv: expected a divisor of 8, found 3");
  keys = Keys("qwen3moe");
  keys.Set("qwen3moe.attention.head_count", GgufValue::U32(0));
  EXPECT_EQ(MessageOf(keys), "m.gguf: qwen3moe.attention.head_count: expected at least 1, found 0");
  keys = Keys("qwen3moe");
  keys.Set("qwen3moe.attention.head_count", GgufValue::U32(1u << 24));
  EXPECT_EQ(MessageOf(keys),
            "m.gguf: qwen3moe.attention.head_count: expected at most 65535, found 16777216");
  keys = Keys("qwen3moe");
  keys.Set("qwen3moe.rope.freq_base", GgufValue::F32(0));
  EXPECT_EQ(MessageOf(keys), "m.gguf: qwen3moe.rope.freq_base: expected more than 1, found 0");
  keys = Keys("qwen3moe");
  keys.Set("qwen3moe.rope.dimension_count", GgufValue::U32(7));
  EXPECT_EQ(MessageOf(keys),
            "m.gguf: qwen3moe.rope.dimension_count: expected an even number, found 7");
  for (const char* architecture : {"llama", "qwen3moe", "llama4", "phimoe"}) {
    keys = Keys(architecture);
    keys.Set(std::string(architecture) + ".rope.dimension_count", GgufValue::U32(34));
    EXPECT_THAT(MessageOf(keys), HasSubstr("rope.dimension_count: expected at most 32, the width "
                                           "of a head, found 34"));
  }
  keys = Keys("qwen3moe");
  keys.Set("qwen3moe.nextn_predict_layers", GgufValue::U32(8));
  EXPECT_EQ(MessageOf(keys),
            "m.gguf: qwen3moe.nextn_predict_layers: expected fewer than 8, found 8");
  keys = Keys("qwen3moe");
  keys.Set("qwen3moe.block_count", GgufValue::U32(1u << 30));
  EXPECT_EQ(MessageOf(keys),
            "m.gguf: qwen3moe.block_count: expected a number up to 16777216, found 1073741824");
  keys = Keys("qwen3moe");
  keys.Set("qwen3moe.attention.layer_norm_rms_epsilon", GgufValue::F32(NAN));
  EXPECT_THAT(MessageOf(keys), HasSubstr("expected a finite f32, found nan"));
  keys = Keys("minimax-m2");
  EXPECT_EQ(MessageOf(keys),
            "m.gguf: minimax-m2.expert_gating_func: expected a gating function, found none");
}

TEST(ModelSpec, DeclinesUndividedLatentAttention) {
  EXPECT_THAT(MessageOf(Keys("deepseek2")), HasSubstr("undivided attn_kv_b"));
}

}  // namespace
}  // namespace moepack
