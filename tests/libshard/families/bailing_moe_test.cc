#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/libshard/convert/converted.h"
#include "tests/libshard/families/layered_sample.h"

namespace moepack {
namespace {

using testing::HasSubstr;

constexpr const char* kJoined = "model.layers.0.attention.query_key_value.weight";

void AddBailingBlock(ConvertSample& sample, const std::string& at, bool norms) {
  AddLayerNorms(sample, at);
  sample.Add(at + "attention.query_key_value.weight", {8, 4});
  if (norms) sample.Add(at + "attention.query_layernorm.weight", {2});
  if (norms) sample.Add(at + "attention.key_layernorm.weight", {2});
  sample.Add(at + "attention.dense.weight", {4, 4});
}

void AddBailingEnds(ConvertSample& sample) {
  AddTokenizer(sample);
  for (const char* name : {"model.word_embeddings.weight", "lm_head.weight"})
    sample.Add(name, {5, 4});
  sample.Add("model.norm.weight", {4});
}

ConvertSample Ling() {
  ConvertSample sample = LayeredSample("BailingMoeForCausalLM", "bailing_moe", "num_experts");
  sample.config["num_hidden_layers"] = 1;
  sample.config["first_k_dense_replace"] = 0;
  sample.config["num_shared_experts"] = 1;
  sample.config["norm_topk_prob"] = true;
  AddBailingEnds(sample);
  AddBailingBlock(sample, "model.layers.0.", /*norms=*/false);
  AddDeepseekExperts(sample, "model.layers.0.", /*bias=*/false);
  return sample;
}

ConvertSample Ling2() {
  ConvertSample sample = LayeredSample("BailingMoeV2ForCausalLM", "bailing_moe_v2", "num_experts");
  sample.config["num_shared_experts"] = 1;
  sample.config["norm_topk_prob"] = true;
  sample.config["score_function"] = "sigmoid";
  AddBailingEnds(sample);
  AddBailingBlock(sample, "model.layers.0.", /*norms=*/true);
  AddBailingBlock(sample, "model.layers.1.", /*norms=*/true);
  AddDenseMlp(sample, "model.layers.0.mlp.");
  AddDeepseekExperts(sample, "model.layers.1.", /*bias=*/false);
  sample.Add("model.layers.1.mlp.gate.expert_bias", {2});
  return sample;
}

// The keys from config.json alone.
Result<GgufModel> BailingKeysOf(const ConvertSample& sample) {
  ConvertOptions options;
  options.part = ConvertOptions::Part::kKeys;
  return sample.Convert(options);
}

// Rows of four numbers.
std::vector<float> RowsOfFour(const std::vector<float>& values,
                              std::initializer_list<size_t> rows) {
  std::vector<float> taken;
  for (const size_t row : rows) {
    taken.insert(taken.end(), values.begin() + static_cast<std::ptrdiff_t>(4 * row),
                 values.begin() + static_cast<std::ptrdiff_t>(4 * row + 4));
  }
  return taken;
}

TEST(BailingMoe, SplitsQueriesKeysAndValues) {
  ConvertSample sample = Ling();
  const GgufModel model = Converted(sample);
  const std::vector<float> all = sample.Values(kJoined);
  // Two query heads, one key head and one value head of two rows each: halves of one row.
  EXPECT_EQ(sample.Values(model, "blk.0.attn_q.weight"), RowsOfFour(all, {0, 1, 2, 3}));
  EXPECT_EQ(sample.Values(model, "blk.0.attn_k.weight"), RowsOfFour(all, {4, 5}));
  EXPECT_EQ(sample.Values(model, "blk.0.attn_v.weight"), RowsOfFour(all, {6, 7}));
}

TEST(BailingMoe, WritesThatExpertWeightsAreNotNormalised) {
  ConvertSample sample = Ling();
  sample.config["norm_topk_prob"] = false;
  const GgufMetadata keys = ConvertedKeys(sample);
  EXPECT_EQ(*keys.Find("bailingmoe.expert_weights_norm"), GgufValue::Bool(false));
  EXPECT_EQ(*keys.Find("bailingmoe.expert_weights_scale"), GgufValue::F32(1));
}

TEST(BailingMoe, DividesTheColumnsOfANormedHeadByTheirLengths) {
  ConvertSample sample = Ling();
  sample.config["norm_head"] = true;
  const GgufModel model = Converted(sample);
  const std::vector<float> head = sample.Values("lm_head.weight");
  std::vector<float> expected;
  for (size_t i = 0; i < head.size(); ++i) {
    double squares = 0;
    for (size_t row = 0; row < 5; ++row)
      squares += double{head[4 * row + i % 4]} * head[4 * row + i % 4];
    expected.push_back(head[i] / (static_cast<float>(std::sqrt(squares)) + 1e-7f));
  }
  EXPECT_EQ(sample.Values(model, "output.weight"), expected);
  EXPECT_EQ(sample.Values(model, "token_embd.weight"),
            sample.Values("model.word_embeddings.weight"));
  sample.config["norm_head"] = false;
  EXPECT_EQ(sample.Values(Converted(sample), "output.weight"), head);
}

TEST(BailingMoe, RefusesANormedHeadThatIsTheEmbedding) {
  ConvertSample sample = Ling();
  sample.Remove("lm_head");
  sample.config["tie_word_embeddings"] = true;
  EXPECT_EQ(Converted(sample).tensors.back().name, "output.weight");
  sample.config["norm_head"] = true;
  EXPECT_EQ(ConversionError(sample).code, Code::kUnsupported);
  EXPECT_THAT(ConversionError(sample).message,
              HasSubstr("norm_head: expected false without a tensor lm_head.weight, found true"));
}

TEST(BailingMoe, RefusesOtherModalitiesByName) {
  ConvertSample sample = Ling();
  sample.config["architectures"] = {"BailingMMNativeForConditionalGeneration"};
  EXPECT_THAT(ConversionError(sample).message,
              HasSubstr("expected BailingMoeForCausalLM, found \"BailingMMNative"));
}

TEST(BailingMoe, RefusesALayerWithoutExperts) {
  ConvertSample sample = Ling();
  sample.Remove("mlp.");
  AddDenseMlp(sample, "model.layers.0.mlp.");
  EXPECT_THAT(ConversionError(sample).message,
              HasSubstr("expected routed experts, found 10 tensors and no expert among them"));
}

TEST(BailingMoeV2, KeepsQueriesKeysAndValuesTogether) {
  ConvertSample sample = Ling2();
  EXPECT_EQ(sample.Values(Converted(sample), "blk.0.attn_qkv.weight"), sample.Values(kJoined));
}

TEST(BailingMoeV2, RotatesHalfOfAHeadUnlessTheConfigSaysOtherwise) {
  ConvertSample sample = Ling2();
  const auto rotated = [&] {
    return ConvertedKeys(sample).Uint("bailingmoe2.rope.dimension_count");
  };
  EXPECT_EQ(rotated(), 1u);
  sample.config["partial_rotary_factor"] = 1.0;
  EXPECT_EQ(rotated(), 2u);
  sample.config["partial_rotary_factor"] = 1.5;
  EXPECT_THAT(ConversionError(sample).message, HasSubstr("a number from 0 to 1"));
}

TEST(BailingMoeV2, TheWidthOfSharedExpertsIsThatOfOne) {
  ConvertSample sample = Ling2();
  sample.config["num_shared_experts"] = 2;
  sample.config["moe_shared_expert_intermediate_size"] = 4;
  const auto keys = BailingKeysOf(sample);
  ASSERT_TRUE(keys) << keys.error().message;
  EXPECT_EQ(keys->metadata.Uint("bailingmoe2.expert_shared_feed_forward_length"), 2u);
  sample.config["moe_shared_expert_intermediate_size"] = 5;
  EXPECT_THAT(ConversionError(sample).message, HasSubstr("a multiple of 2 (num_shared_experts)"));
}

TEST(BailingMoeV2, RequiresASelectionBias) {
  ConvertSample sample = Ling2();
  sample.Remove("expert_bias");
  EXPECT_THAT(ConversionError(sample).message, HasSubstr("exp_probs_b"));
}

}  // namespace
}  // namespace moepack
