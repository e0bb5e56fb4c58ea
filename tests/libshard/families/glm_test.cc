// GLM-4.5 and its relatives (glm4moe), and GLM-4.7-Flash (deepseek2 with GLM's rules).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/libshard/convert/converted.h"
#include "tests/libshard/convert/latent_sample.h"

namespace moepack {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

void AddAttention(ConvertSample& sample, const std::string& at, bool biases) {
  sample.Add(at + "input_layernorm.weight", {4});
  sample.Add(at + "post_attention_layernorm.weight", {4});
  const std::pair<const char*, uint64_t> rows[] = {{"q", 4}, {"k", 2}, {"v", 2}};
  for (const auto& [part, size] : rows) {
    sample.Add(at + "self_attn." + part + "_proj.weight", {size, 4});
    if (biases) sample.Add(at + "self_attn." + part + "_proj.bias", {size});
  }
  sample.Add(at + "self_attn.o_proj.weight", {4, 4});
}

ConvertSample Glm(bool biases = true) {
  ConvertSample sample;
  sample.config = Json::parse(R"({"architectures": ["Glm4MoeForCausalLM"],
    "model_type": "glm4_moe", "num_hidden_layers": 2, "hidden_size": 4, "head_dim": 2,
    "num_attention_heads": 2, "num_key_value_heads": 1, "n_routed_experts": 2,
    "num_experts_per_tok": 1, "moe_intermediate_size": 2, "intermediate_size": 2, "vocab_size": 5,
    "max_position_embeddings": 64, "tie_word_embeddings": false})");
  AddModel(sample);
  AddAttention(sample, "model.layers.0.", biases);
  AddDenseMlp(sample, "model.layers.0.mlp.");
  AddAttention(sample, "model.layers.1.", biases);
  AddDeepseekExperts(sample, "model.layers.1.", true);
  return sample;
}

ConvertSample Flash() {
  ConvertSample sample = LatentSample("Glm4MoeLiteForCausalLM", "glm4_moe_lite");
  for (const char* field : {"first_k_dense_replace", "n_group", "topk_group"}) {
    sample.config.erase(field);
  }
  return sample;
}

std::vector<std::string> Names(const GgufModel& model) {
  std::vector<std::string> names;
  for (const GgufTensor& tensor : model.tensors) names.push_back(tensor.name);
  return names;
}

TEST(Glm4Moe, FillsInWhatTheConfigClassHas) {
  const GgufMetadata keys = Converted(Glm()).metadata;
  EXPECT_EQ(*keys.Find("glm4moe.rope.freq_base"), GgufValue::F32(10000));
  EXPECT_EQ(keys.Uint("glm4moe.rope.dimension_count"), 1u);  // half of a head
  EXPECT_EQ(keys.Uint("glm4moe.expert_gating_func"), 2u);
  EXPECT_EQ(keys.Uint("glm4moe.expert_group_count"), 1u);
  EXPECT_EQ(keys.Uint("glm4moe.leading_dense_block_count"), 1u);
  EXPECT_EQ(keys.Uint("glm4moe.expert_shared_count"), 1u);
  EXPECT_EQ(*keys.Find("glm4moe.expert_weights_scale"), GgufValue::F32(1));
}

TEST(Glm4Moe, WritesWhetherWeightsAreRenormalised) {
  ConvertSample sample = Glm();
  EXPECT_EQ(*Converted(sample).metadata.Find("glm4moe.expert_weights_norm"), GgufValue::Bool(true));
  sample.config["norm_topk_prob"] = false;
  EXPECT_EQ(*Converted(sample).metadata.Find("glm4moe.expert_weights_norm"),
            GgufValue::Bool(false));
}

TEST(Glm4Moe, NamesItsSecondNormPostAttentionNorm) {
  const std::vector<std::string> names = Names(Converted(Glm()));
  EXPECT_THAT(names, Contains("blk.1.post_attention_norm.weight"));
  EXPECT_THAT(names, Not(Contains("blk.1.ffn_norm.weight")));
}

TEST(Glm4Moe, BiasesAndNormsOfQueriesAndKeysMayBeAbsent) {
  EXPECT_THAT(Names(Converted(Glm())), Contains("blk.0.attn_k.bias"));
  EXPECT_THAT(Names(Converted(Glm(/*biases=*/false))), Not(Contains("blk.0.attn_k.bias")));
}

TEST(Glm4Moe, RequiresASelectionBias) {
  ConvertSample sample = Glm();
  sample.Remove("e_score_correction_bias");
  const auto model = sample.Convert();
  ASSERT_FALSE(model);
  EXPECT_THAT(model.error().message, HasSubstr("tensors for blk.1.exp_probs_b.bias, found none"));
}

TEST(Glm4Moe, ARotaryPartBeyondTheHeadIsRefused) {
  ConvertSample sample = Glm();
  sample.config["partial_rotary_factor"] = 1.5;
  const auto model = sample.Convert();
  ASSERT_FALSE(model);
  EXPECT_THAT(model.error().message, HasSubstr("partial_rotary_factor: expected a number from 0"));
}

TEST(Glm4Moe, KnowsItsSpecialTokensByText) {
  ConvertSample sample = Glm();
  EXPECT_EQ(Converted(sample).metadata.Uint("tokenizer.ggml.eot_token_id"), 3u);
  EXPECT_EQ(Converted(sample).metadata.Find("tokenizer.ggml.bos_token_id"), nullptr);
  sample.tokenizer["added_tokens"].push_back({{"id", 4}, {"content", "[gMASK]"}});
  EXPECT_EQ(Converted(sample).metadata.Uint("tokenizer.ggml.bos_token_id"), 4u);
  sample.config["bos_token_id"] = 1;
  EXPECT_EQ(Converted(sample).metadata.Uint("tokenizer.ggml.bos_token_id"), 1u);
}

TEST(Glm4Moe, KeepsBlocksForMultiTokenPredictionUnlessToldToDropThem) {
  ConvertSample sample = Glm();
  sample.config["num_nextn_predict_layers"] = 1;
  AddAttention(sample, "model.layers.2.", true);
  AddDeepseekExperts(sample, "model.layers.2.", true);
  AddNextToken(sample, "model.layers.2.");
  const GgufModel kept = Converted(sample);
  EXPECT_EQ(kept.metadata.Uint("glm4moe.block_count"), 3u);
  EXPECT_EQ(kept.metadata.Uint("glm4moe.nextn_predict_layers"), 1u);
  EXPECT_THAT(Names(kept), Contains("blk.2.nextn.eh_proj.weight"));
  EXPECT_THAT(Names(kept), Contains("blk.2.ffn_up_exps.weight"));
  const GgufModel dropped = Converted(sample, {.pre = "", .mtp = false});
  EXPECT_EQ(dropped.metadata.Uint("glm4moe.block_count"), 2u);
  EXPECT_EQ(dropped.metadata.Find("glm4moe.nextn_predict_layers"), nullptr);
  EXPECT_THAT(Names(dropped), Not(Contains(HasSubstr("blk.2."))));
}

TEST(Glm4Moe, AnAnnouncedButMissingBlockIsNotCounted) {
  ConvertSample sample = Glm();
  sample.config["num_nextn_predict_layers"] = 1;
  const GgufModel model = Converted(sample);
  EXPECT_EQ(model.metadata.Uint("glm4moe.block_count"), 2u);
  EXPECT_THAT(model.faults,
              ElementsAre(HasSubstr("config.json: expected tensors of 1 block for multi-token "
                                    "prediction, as it announces, found none, and the GGUF has "
                                    "none; --no-mtp asks for none")));
  EXPECT_THAT(Converted(sample, {.pre = "", .mtp = false}).faults, IsEmpty());
}

TEST(Glm47Flash, SaysHowExpertsAreScoredThoughItsConfigDoesNot) {
  const GgufModel model = Converted(Flash());
  EXPECT_THAT(model.warnings, IsEmpty());
  EXPECT_EQ(model.architecture(), "deepseek2");
  EXPECT_EQ(model.metadata.Uint("deepseek2.expert_gating_func"), 2u);
  EXPECT_EQ(model.metadata.Uint("deepseek2.expert_group_count"), 1u);
  EXPECT_EQ(*model.metadata.Find("deepseek2.expert_weights_scale"), GgufValue::F32(1.8f));
}

TEST(Glm47Flash, TakesTheDenseLayersFromTheirList) {
  ConvertSample sample = Flash();
  EXPECT_EQ(Converted(sample).metadata.Uint("deepseek2.leading_dense_block_count"), 1u);
  sample.config["mlp_layer_types"] = {"dense", "sparse"};
  EXPECT_EQ(Converted(sample).metadata.Uint("deepseek2.leading_dense_block_count"), 1u);
  sample.config["mlp_layer_types"] = {"sparse", "sparse"};
  EXPECT_THAT(
      sample.Convert().error().message,
      HasSubstr("missing: layer 0: routed experts: expected some (mlp_layer_types), found none"));
}

TEST(Glm47Flash, KeepsItsMultiTokenPredictionBlockAndItsTokens) {
  ConvertSample sample = Flash();
  sample.config["num_nextn_predict_layers"] = 1;
  AddLatentAttention(sample, "model.layers.2.", true);
  AddDeepseekExperts(sample, "model.layers.2.", true);
  AddNextToken(sample, "model.layers.2.");
  const GgufModel model = Converted(sample);
  EXPECT_EQ(model.metadata.Uint("deepseek2.block_count"), 3u);
  EXPECT_EQ(model.metadata.Uint("deepseek2.nextn_predict_layers"), 1u);
  EXPECT_THAT(Names(model), Contains("blk.2.nextn.shared_head_norm.weight"));
  EXPECT_EQ(model.metadata.Uint("tokenizer.ggml.eot_token_id"), 3u);
}

}  // namespace
}  // namespace moepack
