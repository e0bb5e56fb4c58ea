#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/text/text.h"
#include "tests/libshard/convert/converted.h"
#include "tests/libshard/convert/latent_sample.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ConvertSample V2(bool low_rank = true) {
  return LatentSample("DeepseekV2ForCausalLM", "deepseek_v2", low_rank);
}
ConvertSample V3() { return LatentSample("DeepseekV3ForCausalLM", "deepseek_v3"); }

const GgufTensor* Find(const GgufModel& model, const std::string& name) {
  for (const GgufTensor& tensor : model.tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

TEST(Deepseek2, SplitsKeysAndValuesOfEachHeadAndTransposesTheKeys) {
  ConvertSample sample = V3();
  const GgufModel model = Converted(sample);
  const std::vector<float> all = sample.Values("model.layers.0.self_attn.kv_b_proj.weight");
  const auto value = [&](size_t row, size_t column) { return all[row * 3 + column]; };
  // A head has two rows of keys and one of values.
  EXPECT_THAT(Find(model, "blk.0.attn_k_b.weight")->shape, ElementsAre(2, 3, 2));
  EXPECT_EQ(sample.Values(model, "blk.0.attn_k_b.weight"),
            (std::vector<float>{value(0, 0), value(1, 0), value(0, 1), value(1, 1), value(0, 2),
                                value(1, 2), value(3, 0), value(4, 0), value(3, 1), value(4, 1),
                                value(3, 2), value(4, 2)}));
  EXPECT_THAT(Find(model, "blk.0.attn_v_b.weight")->shape, ElementsAre(2, 1, 3));
  EXPECT_EQ(sample.Values(model, "blk.0.attn_v_b.weight"), golden::Rows(all, 3, {2, 5}));
}

TEST(Deepseek2, DescribesAttentionAsTheRuntimeSeesIt) {
  const GgufMetadata keys = Converted(V3()).metadata;
  const std::pair<const char*, uint32_t> rows[] = {
      {"attention.head_count", 2},     {"attention.head_count_kv", 1},
      {"attention.key_length", 5},     {"attention.value_length", 3},
      {"attention.key_length_mla", 4}, {"attention.value_length_mla", 1},
      {"attention.kv_lora_rank", 3},   {"attention.q_lora_rank", 2},
      {"rope.dimension_count", 2},     {"leading_dense_block_count", 1}};
  for (const auto& [key, value] : rows) {
    EXPECT_EQ(keys.Uint(Cat("deepseek2.", key)), value) << key;
  }
}

// The runtime does not require the key for V2-Lite, and llama.cpp's converter does not write it.
TEST(Deepseek2, V2LiteHasNoKeyForTheRankOfItsQueries) {
  for (const int layers : {26, 27}) {
    ConvertSample sample = V2(/*low_rank=*/false);
    sample.config["q_lora_rank"] = nullptr;
    sample.config["num_hidden_layers"] = layers;
    for (int layer = 2; layer < layers; ++layer) {
      const std::string at = Cat("model.layers.", layer, ".");
      AddLatentAttention(sample, at, false);
      AddDeepseekExperts(sample, at, false);
    }
    const GgufModel model = Converted(sample);
    EXPECT_EQ(model.metadata.Uint("deepseek2.block_count"), static_cast<uint64_t>(layers));
    EXPECT_EQ(model.metadata.Find("deepseek2.attention.q_lora_rank"), nullptr);
    EXPECT_NE(Find(model, "blk.0.attn_q.weight"), nullptr);
  }
}

TEST(Deepseek2, WritesARankOfZeroForQueriesWithoutALowRank) {
  ConvertSample sample = V2(/*low_rank=*/false);
  sample.config["q_lora_rank"] = nullptr;
  const GgufModel model = Converted(sample);
  EXPECT_EQ(model.metadata.Uint("deepseek2.attention.q_lora_rank"), 0u);
  EXPECT_NE(Find(model, "blk.0.attn_q.weight"), nullptr);
  EXPECT_EQ(Find(model, "blk.0.attn_q_a.weight"), nullptr);
}

TEST(Deepseek2, RefusesALowRankInAModelThatTheRuntimeMistakesForV2Lite) {
  ConvertSample sample = V2();
  for (int layers = 3; layers <= 27; ++layers) {
    sample.config["num_hidden_layers"] = layers;
    const std::string at = Cat("model.layers.", layers - 1, ".");
    AddLatentAttention(sample, at, true);
    AddDeepseekExperts(sample, at, false);
    if (layers < 26) continue;
    const Error error = ConversionError(sample);
    EXPECT_EQ(error.code, Code::kUnsupported);
    EXPECT_THAT(error.message, HasSubstr("q_lora_rank: expected none"));
  }
}

TEST(Deepseek2, WritesATenthOfMscaleAllDim) {
  ConvertSample sample = V2();
  sample.config["rope_scaling"] = Json::parse(R"({"type": "yarn", "factor": 40, "beta_fast": 32,
    "beta_slow": 1, "mscale": 0.707, "mscale_all_dim": 0.707,
    "original_max_position_embeddings": 4096})");
  const GgufModel model = Converted(sample);
  EXPECT_EQ(*model.metadata.Find("deepseek2.rope.scaling.yarn_log_multiplier"),
            GgufValue::F32(static_cast<float>(0.1 * 0.707)));
  EXPECT_THAT(model.warnings, IsEmpty());
  sample.config["rope_scaling"]["mscale"] = 0.5;
  EXPECT_THAT(ConversionError(sample).message, HasSubstr("mscale: expected 1 or mscale_all_dim"));
}

TEST(Deepseek2, WarnsOfBetasThatTheRuntimeDoesNotRead) {
  ConvertSample sample = LatentSample("DeepseekV3ForCausalLM", "kimi_k2");
  sample.config["rope_scaling"] = Json::parse(R"({"type": "yarn", "factor": 32, "beta_fast": 1,
    "beta_slow": 1, "original_max_position_embeddings": 4096})");
  const GgufModel model = Converted(sample);
  EXPECT_EQ(*model.metadata.Find("deepseek2.rope.scaling.yarn_beta_fast"), GgufValue::F32(1));
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("beta_fast and beta_slow: expected 32 and 1")));
}

TEST(Deepseek2, RefusesWhatTheRuntimeWouldComputeWrongly) {
  const std::tuple<const char*, Json, const char*> rows[] = {
      {"n_shared_experts", 0, "n_shared_experts: expected at least one"},
      {"num_key_value_heads", 1, "num_key_value_heads: expected num_attention_heads (2), found 1"},
      {"rope_interleave", false, "rope_interleave: expected true"}};
  for (const auto& [field, value, message] : rows) {
    ConvertSample sample = V3();
    sample.config[field] = value;
    if (value == 0) sample.Remove("shared_experts");
    const Error error = ConversionError(sample);
    EXPECT_EQ(error.code, Code::kUnsupported) << field;
    EXPECT_THAT(error.message, HasSubstr(message));
  }
}

TEST(Deepseek2, V3ScoresWithSigmoidEvenIfItsConfigDoesNotSaySo) {
  const GgufMetadata keys = Converted(V3()).metadata;
  EXPECT_EQ(keys.Uint("deepseek2.expert_gating_func"), 2u);
  EXPECT_EQ(*keys.Find("deepseek2.expert_weights_scale"), GgufValue::F32(2.5f));
  EXPECT_EQ(*keys.Find("deepseek2.expert_weights_norm"), GgufValue::Bool(true));
  EXPECT_EQ(*keys.Find("deepseek2.rope.freq_base"), GgufValue::F32(10000));
}

TEST(Deepseek2, V3WithoutASelectionBiasIsRefused) {
  ConvertSample sample = V3();
  sample.Remove("e_score_correction_bias");
  EXPECT_THAT(ConversionError(sample).message,
              HasSubstr("tensors for blk.1.exp_probs_b.bias, found none"));
}

TEST(Deepseek2, V2DoesNotRenormaliseAndWritesNoKeyForIt) {
  ConvertSample sample = V2();
  sample.config["scoring_func"] = "softmax";
  const GgufMetadata keys = Converted(sample).metadata;
  EXPECT_EQ(keys.Uint("deepseek2.expert_gating_func"), 1u);
  EXPECT_EQ(keys.Find("deepseek2.expert_weights_norm"), nullptr);
}

TEST(Deepseek2, WarnsOfV2GroupsThatTheRuntimeScoresDifferently) {
  ConvertSample sample = V2();
  EXPECT_THAT(Converted(sample).warnings, IsEmpty());
  // Two groups of two experts.
  sample.config.update({{"n_routed_experts", 4}, {"n_group", 2}});
  sample.Remove("mlp.gate.weight");
  sample.Add("model.layers.1.mlp.gate.weight", {4, 4});
  for (const char* expert : {"2", "3"}) {
    const std::string at = std::string("model.layers.1.mlp.experts.") + expert;
    sample.Add(at + ".gate_proj.weight", {2, 4});
    sample.Add(at + ".up_proj.weight", {2, 4});
    sample.Add(at + ".down_proj.weight", {4, 2});
  }
  EXPECT_THAT(Converted(sample).warnings, ElementsAre(HasSubstr("n_group: expected 1, found 2")));
}

TEST(Deepseek2, KimiGetsNoGroupsUnlessItsConfigStatesThem) {
  ConvertSample kimi = LatentSample("DeepseekV3ForCausalLM", "kimi_k2"), deepseek = V3();
  for (ConvertSample* sample : {&kimi, &deepseek}) {
    sample->config.erase("n_group");
    sample->config.erase("topk_group");
  }
  EXPECT_EQ(Converted(kimi).metadata.Find("deepseek2.expert_group_count"), nullptr);
  // DeepSeek's class has eight groups, for which two experts are too few.
  EXPECT_THAT(ConversionError(deepseek).message, HasSubstr("n_group: expected fewer than 2"));
}

TEST(Deepseek2, BlocksForMultiTokenPredictionAreLeftOutAndCounted) {
  ConvertSample sample = V3();
  sample.config["num_nextn_predict_layers"] = 1;
  AddLatentAttention(sample, "model.layers.2.", true);
  AddDeepseekExperts(sample, "model.layers.2.", true);
  AddNextToken(sample, "model.layers.2.");
  const GgufModel model = Converted(sample);
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("left out 24 tensors of blocks for multi-")));
  EXPECT_EQ(model.metadata.Uint("deepseek2.block_count"), 2u);
  EXPECT_EQ(model.metadata.Find("deepseek2.nextn_predict_layers"), nullptr);
  for (const GgufTensor& tensor : model.tensors)
    EXPECT_LT(tensor.layer.value_or(0), 2u) << tensor.name;
}

TEST(Deepseek2, RefusesModelsWithOtherAttentionByName) {
  ConvertSample first = V2();
  first.config["architectures"] = {"DeepseekForCausalLM"};
  first.config["model_type"] = "deepseek";
  EXPECT_THAT(ConversionError(first).message,
              HasSubstr("expected deepseek_v2, found \"deepseek\""));
}

ConvertSample V32() {
  ConvertSample sample = V3();
  sample.config["architectures"] = {"DeepseekV32ForCausalLM"};
  sample.config["index_n_heads"] = 1;
  sample.config["index_head_dim"] = 4;
  sample.config["index_topk"] = 7;
  for (const std::string layer : {"0", "1"}) {
    const std::string at = "model.layers." + layer + ".self_attn.indexer.";
    sample.Add(at + "wq_b.weight", {4, 2});
    sample.Add(at + "wk.weight", {4, 4});
    sample.Add(at + "k_norm.weight", {4});
    sample.Add(at + "k_norm.bias", {4});
    sample.Add(at + "weights_proj.weight", {1, 4});
  }
  return sample;
}

TEST(Deepseek32, KeepsBlocksForMultiTokenPrediction) {
  ConvertSample sample = V32();
  sample.config["num_nextn_predict_layers"] = 1;
  AddLatentAttention(sample, "model.layers.2.", true);
  AddDeepseekExperts(sample, "model.layers.2.", true);
  AddNextToken(sample, "model.layers.2.");
  const std::string indexer = "model.layers.2.self_attn.indexer.";
  for (const fixtures::RawTensor& tensor : std::vector(sample.tensors)) {
    const std::string first = "model.layers.0.self_attn.indexer.";
    if (tensor.name.starts_with(first))
      sample.Add(indexer + tensor.name.substr(first.size()), tensor.shape);
  }
  const GgufModel model = Converted(sample);
  EXPECT_THAT(model.warnings, testing::IsEmpty());
  EXPECT_EQ(model.metadata.Uint("deepseek32.block_count"), 3u);
  EXPECT_EQ(model.metadata.Uint("deepseek32.nextn_predict_layers"), 1u);
  EXPECT_EQ(sample.Values(model, "blk.2.nextn.enorm.weight"),
            sample.Values("model.layers.2.enorm.weight"));
}

TEST(Deepseek32, HasAnIndexerInAdditionToTheSameAttention) {
  const ConvertSample sample = V32();
  const GgufModel model = Converted(sample);
  EXPECT_EQ(model.architecture(), "deepseek32");
  EXPECT_EQ(model.metadata.Uint("deepseek32.attention.indexer.head_count"), 1u);
  EXPECT_EQ(model.metadata.Uint("deepseek32.attention.indexer.key_length"), 4u);
  EXPECT_EQ(model.metadata.Uint("deepseek32.attention.indexer.top_k"), 7u);
  EXPECT_EQ(model.metadata.Uint("deepseek32.expert_gating_func"), 2u);
  for (const char* name :
       {"attn_q_b.weight", "attn_k.weight", "k_norm.weight", "k_norm.bias", "proj.weight"})
    EXPECT_FALSE(sample.Values(model, std::string("blk.1.indexer.") + name).empty()) << name;
}

TEST(Deepseek32, NeedsLowRankQueriesAndTheSizesOfItsIndexer) {
  ConvertSample sample = V32();
  sample.config["q_lora_rank"] = nullptr;
  EXPECT_THAT(ConversionError(sample).message, HasSubstr("by which the indexer finds keys"));
  sample = V32();
  sample.config.erase("index_topk");
  EXPECT_THAT(ConversionError(sample).message, HasSubstr("index_topk"));
}

TEST(Deepseek2, RefusesAQueryProjectionThatContradictsTheConfig) {
  ConvertSample sample = V2();
  sample.config["q_lora_rank"] = nullptr;
  EXPECT_THAT(ConversionError(sample).message, HasSubstr("self_attn.q_a_proj.weight"));
}

}  // namespace
}  // namespace moepack
