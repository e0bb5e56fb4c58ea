#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/text/text.h"
#include "tests/libshard/convert/sample.h"

namespace moepack {
namespace {

using golden::Rows;
using testing::HasSubstr;

// Hidden size 8, two query heads and one key head of four values, two experts of width 2, tied.
ConvertSample GraniteSample() {
  ConvertSample sample = ConvertSample::Mixtral();
  sample.config.update({{"architectures", {"GraniteMoeForCausalLM"}},
                        {"model_type", "granitemoe"},
                        {"attention_multiplier", 0.25},
                        {"embedding_multiplier", 12.0},
                        {"logits_scaling", 6.0},
                        {"residual_multiplier", 0.5},
                        {"tie_word_embeddings", true}});
  sample.Remove("block_sparse_moe");
  sample.Remove("lm_head");
  const std::string moe = "model.layers.0.block_sparse_moe.";
  sample.Add(moe + "router.layer.weight", {2, 8});
  sample.Add(moe + "input_linear.weight", {2, 4, 8});
  sample.Add(moe + "output_linear.weight", {2, 8, 2});
  return sample;
}

ConvertSample SharedSample() {
  ConvertSample sample = GraniteSample();
  sample.config.update({{"architectures", {"GraniteMoeSharedForCausalLM"}},
                        {"model_type", "granitemoeshared"},
                        {"shared_intermediate_size", 3}});
  sample.Add("model.layers.0.shared_mlp.input_linear.weight", {6, 8});
  sample.Add("model.layers.0.shared_mlp.output_linear.weight", {8, 3});
  return sample;
}

TEST(ConvertGraniteMoe, SplitsInputLinearIntoGateAndUpOfEachExpert) {
  ConvertSample sample = GraniteSample();
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  const std::string moe = "model.layers.0.block_sparse_moe.";
  const std::vector<float> input = sample.Values(moe + "input_linear.weight");
  EXPECT_EQ(sample.Values(*model, "blk.0.ffn_gate_exps.weight"), Rows(input, 8, {0, 1, 4, 5}));
  EXPECT_EQ(sample.Values(*model, "blk.0.ffn_up_exps.weight"), Rows(input, 8, {2, 3, 6, 7}));
  EXPECT_EQ(sample.Values(*model, "blk.0.ffn_down_exps.weight"),
            sample.Values(moe + "output_linear.weight"));
  EXPECT_EQ(sample.Values(*model, "blk.0.ffn_gate_inp.weight"),
            sample.Values(moe + "router.layer.weight"));
  EXPECT_EQ(model->tensors.size(), 2u + 10u) << "tied: no output.weight";
}

TEST(ConvertGraniteMoe, PermutesQueriesByHeadsAndKeysByKeyHeads) {
  ConvertSample sample = GraniteSample();
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  const std::string at = "model.layers.0.self_attn.";
  EXPECT_EQ(sample.Values(*model, "blk.0.attn_q.weight"),
            Rows(sample.Values(at + "q_proj.weight"), 8, {0, 2, 1, 3, 4, 6, 5, 7}));
  EXPECT_EQ(sample.Values(*model, "blk.0.attn_k.weight"),
            Rows(sample.Values(at + "k_proj.weight"), 8, {0, 2, 1, 3}));
}

TEST(ConvertGraniteMoe, WritesItsMultipliersAndSizes) {
  const auto model = GraniteSample().Convert();
  ASSERT_TRUE(model) << model.error().message;
  const auto find = [&](const char* key) { return *model->metadata.Find(Cat("granitemoe.", key)); };
  EXPECT_EQ(find("attention.scale"), GgufValue::F32(0.25f));
  EXPECT_EQ(find("embedding_scale"), GgufValue::F32(12));
  EXPECT_EQ(find("residual_scale"), GgufValue::F32(0.5f));
  EXPECT_EQ(find("logit_scale"), GgufValue::F32(6));
  EXPECT_EQ(find("vocab_size"), GgufValue::U32(5));
  EXPECT_EQ(find("rope.dimension_count"), GgufValue::U32(4));
  EXPECT_EQ(model->metadata.Find("granitemoe.expert_shared_feed_forward_length"), nullptr);
}

TEST(ConvertGraniteMoe, FillsInTheMultipliersOfTheConfigClass) {
  ConvertSample sample = GraniteSample();
  for (const char* key : {"attention_multiplier", "logits_scaling"}) sample.config.erase(key);
  sample.config["residual_multiplier"] = 0;
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  // The runtime's own default would be one over the square root of the head size.
  EXPECT_EQ(*model->metadata.Find("granitemoe.attention.scale"), GgufValue::F32(1));
  EXPECT_EQ(*model->metadata.Find("granitemoe.logit_scale"), GgufValue::F32(1));
  EXPECT_EQ(model->metadata.Find("granitemoe.residual_scale"), nullptr);
  sample.config["logits_scaling"] = 0.0;
  EXPECT_THAT(sample.Convert().error().message, HasSubstr("logits_scaling: expected a number"));
}

TEST(ConvertGraniteMoe, SplitsTheSharedExpertTheSameWay) {
  ConvertSample sample = SharedSample();
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  const std::vector<float> input = sample.Values("model.layers.0.shared_mlp.input_linear.weight");
  EXPECT_EQ(sample.Values(*model, "blk.0.ffn_gate_shexp.weight"), Rows(input, 8, {0, 1, 2}));
  EXPECT_EQ(sample.Values(*model, "blk.0.ffn_up_shexp.weight"), Rows(input, 8, {3, 4, 5}));
  EXPECT_EQ(sample.Values(*model, "blk.0.ffn_down_shexp.weight"),
            sample.Values("model.layers.0.shared_mlp.output_linear.weight"));
  EXPECT_EQ(model->metadata.Uint("granitemoe.expert_shared_feed_forward_length"), 3u);
}

TEST(ConvertGraniteMoe, RefusesUnannouncedAndMissingSharedExperts) {
  ConvertSample sample = SharedSample();
  sample.config.erase("shared_intermediate_size");
  EXPECT_THAT(sample.Convert().error().message,
              HasSubstr("expected 0 tensors of shared experts in the GGUF, found 3"));
  sample = SharedSample();
  sample.Remove("shared_mlp");
  EXPECT_THAT(sample.Convert().error().message,
              HasSubstr("missing: layer 0: shared experts: expected some, as the config counts "
                        "them, found none"));
}

TEST(ConvertGraniteMoe, RefusesAHeadSizeThatDoesNotFitTheHiddenSize) {
  ConvertSample sample = GraniteSample();
  sample.config["head_dim"] = 2;
  sample.SetHeads(2, 2, 8);
  EXPECT_THAT(sample.Convert().error().message, HasSubstr("expected hidden size / heads (8 / 2)"));
}

TEST(ConvertGraniteMoe, WritesTheFactorsOfLlama3ScalingAsATensor) {
  ConvertSample sample = GraniteSample();
  sample.config["rope_scaling"] = {{"rope_type", "llama3"}};
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->tensors.back().name, "rope_freqs.weight");
  EXPECT_EQ(model->tensors.back().shape, std::vector<uint64_t>{2});
}

TEST(ConvertGraniteMoe, ReadsItsTokenizerAsMixtralDoes) {
  ConvertSample sample = GraniteSample();
  sample.tokenizer_config = {{"add_prefix_space", false}};
  sample.tokenizer["pre_tokenizer"] = Json::parse(R"({"type": "Sequence", "pretokenizers": [
    {"type": "Digits", "individual_digits": true},
    {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}]})");
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->metadata.String("tokenizer.ggml.pre"), "refact");
  EXPECT_EQ(*model->metadata.Find("tokenizer.ggml.add_space_prefix"), GgufValue::Bool(false));
  EXPECT_EQ(model->metadata.Find("tokenizer.ggml.add_bos_token"), nullptr);
}

TEST(ConvertGraniteMoe, AddsNoBeginningOfTextWithTheVocabularyOfTheSmallModels) {
  ConvertSample sample = GraniteSample();
  sample.config["vocab_size"] = 49152;
  sample.Remove("embed_tokens");
  sample.Add("model.embed_tokens.weight", {49152, 8});
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(*model->metadata.Find("tokenizer.ggml.add_bos_token"), GgufValue::Bool(false));
}

}  // namespace
}  // namespace moepack
