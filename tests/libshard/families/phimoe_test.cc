#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "fixtures/tokenizer_model.h"
#include "libshard/base/text/text.h"
#include "tests/libshard/convert/sample.h"

namespace moepack {
namespace {

using testing::HasSubstr;

// Hidden size 8, two query heads and one key head of four values, biases, texts of up to 64 tokens,
// 16 of which were trained first.
ConvertSample PhimoeSample() {
  ConvertSample sample = ConvertSample::Mixtral();
  sample.config.update({{"architectures", {"PhiMoEForCausalLM"}},
                        {"model_type", "phimoe"},
                        {"rope_theta", 10000},
                        {"sliding_window", 64},
                        {"rope_scaling",
                         {{"type", "longrope"},
                          {"long_factor", {1.5, 2.5}},
                          {"short_factor", {1.0, 1.25}},
                          {"original_max_position_embeddings", 16}}}});
  sample.Add("model.norm.bias", {8});
  sample.Add("lm_head.bias", {5});
  const std::string at = "model.layers.0.";
  for (const char* name :
       {"input_layernorm", "post_attention_layernorm", "self_attn.o_proj", "self_attn.q_proj"}) {
    sample.Add(at + name + ".bias", {8});
  }
  sample.Add(at + "self_attn.k_proj.bias", {4});
  sample.Add(at + "self_attn.v_proj.bias", {4});
  return sample;
}

TEST(ConvertPhimoe, ConvertsEveryBias) {
  ConvertSample sample = PhimoeSample();
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  const std::string at = "model.layers.0.";
  const std::pair<std::string, const char*> biases[] = {
      {"model.norm", "output_norm"},
      {"lm_head", "output"},
      {at + "input_layernorm", "blk.0.attn_norm"},
      {at + "post_attention_layernorm", "blk.0.ffn_norm"},
      {at + "self_attn.o_proj", "blk.0.attn_output"},
      {at + "self_attn.q_proj", "blk.0.attn_q"},
      {at + "self_attn.k_proj", "blk.0.attn_k"},
      {at + "self_attn.v_proj", "blk.0.attn_v"}};
  for (const auto& [source, target] : biases) {
    EXPECT_EQ(sample.Values(*model, Cat(target, ".bias")), sample.Values(source + ".bias"));
    EXPECT_EQ(sample.Values(*model, Cat(target, ".weight")), sample.Values(source + ".weight"));
  }
}

TEST(ConvertPhimoe, NamesABiasThatIsMissing) {
  for (const auto& [source, target] : {std::pair("lm_head.bias", "output.bias"),
                                       std::pair("input_layernorm.bias", "blk.0.attn_norm.bias"),
                                       std::pair("o_proj.bias", "blk.0.attn_output.bias")}) {
    ConvertSample sample = PhimoeSample();
    sample.Remove(source);
    EXPECT_THAT(sample.Convert().error().message,
                HasSubstr(Cat(target, ": expected a source tensor")));
  }
}

TEST(ConvertPhimoe, KnowsThatW1IsTheGateW3UpAndW2Down) {
  ConvertSample sample = PhimoeSample();
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  for (const auto& [source, target] :
       {std::pair("w1", "gate"), std::pair("w3", "up"), std::pair("w2", "down")}) {
    std::vector<float> first = sample.Values(*model, Cat("blk.0.ffn_", target, "_exps.weight"));
    first.resize(first.size() / 2);
    EXPECT_EQ(first,
              sample.Values(Cat("model.layers.0.block_sparse_moe.experts.0.", source, ".weight")));
  }
}

TEST(ConvertPhimoe, WritesTheFactorsOfLongAndShortTextsAsTensors) {
  ConvertSample sample = PhimoeSample();
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(sample.Values(*model, "rope_factors_long.weight"), (std::vector<float>{1.5, 2.5}));
  EXPECT_EQ(sample.Values(*model, "rope_factors_short.weight"), (std::vector<float>{1, 1.25}));
  const GgufMetadata& metadata = model->metadata;
  EXPECT_EQ(metadata.Find("phimoe.rope.scaling.type"), nullptr);
  EXPECT_EQ(metadata.Uint("phimoe.rope.scaling.original_context_length"), 16u);
  EXPECT_EQ(metadata.Uint("phimoe.rope.dimension_count"), 4u);
  EXPECT_EQ(metadata.Uint("phimoe.attention.sliding_window"), 64u);
  // The root of 1 + ln(64 / 16) / ln(16).
  EXPECT_EQ(*metadata.Find("phimoe.rope.scaling.attn_factor"),
            GgufValue::F32(static_cast<float>(std::sqrt(1.5))));
}

TEST(ConvertPhimoe, ScalesNothingWithoutFactors) {
  ConvertSample sample = PhimoeSample();
  sample.config.erase("rope_scaling");
  sample.config["sliding_window"] = nullptr;
  sample.config["original_max_position_embeddings"] = 32;
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->metadata.Find("phimoe.rope.scaling.attn_factor"), nullptr);
  EXPECT_EQ(model->metadata.Uint("phimoe.rope.scaling.original_context_length"), 32u);
  EXPECT_EQ(model->metadata.Uint("phimoe.attention.sliding_window"), 0u);
  EXPECT_THAT(model->tensors.back().name, testing::Not(HasSubstr("rope_factors")));
}

TEST(ConvertPhimoe, RefusesFactorsThatDoNotFitTheHeads) {
  ConvertSample sample = PhimoeSample();
  sample.config["rope_scaling"]["short_factor"] = {1.0};
  EXPECT_THAT(sample.Convert().error().message,
              HasSubstr("short_factor: expected 2 numbers (half a head), found 1"));
  sample.config["rope_scaling"]["short_factor"] = "1.0";
  EXPECT_THAT(sample.Convert().error().message,
              HasSubstr("short_factor: expected a list of numbers"));
}

TEST(ConvertPhimoe, RefusesAnOriginalLengthOfZero) {
  ConvertSample sample = PhimoeSample();
  sample.config["rope_scaling"]["original_max_position_embeddings"] = 0;
  EXPECT_THAT(sample.Convert().error().message,
              HasSubstr("original_max_position_embeddings: expected a length over 0"));
}

TEST(ConvertPhimoe, RefusesHeadsThatDoNotFillTheHiddenSizeAsInPhiTiny) {
  ConvertSample sample = PhimoeSample();
  sample.config["head_dim"] = 2;
  sample.config.erase("rope_scaling");
  sample.SetHeads(2, 2, 8);
  sample.Reshape("model.layers.0.self_attn.q_proj.bias", {4});
  sample.Reshape("model.layers.0.self_attn.k_proj.bias", {2});
  sample.Reshape("model.layers.0.self_attn.v_proj.bias", {2});
  EXPECT_THAT(sample.Convert().error().message, HasSubstr("expected hidden size / heads (8 / 2)"));
}

TEST(ConvertPhimoe, LooksForAddedTokensInTheTokenizerFileToo) {
  ConvertSample sample = PhimoeSample();
  sample.Write("tokenizer.model", fixtures::TokenizerModel(
                                      {{"<unk>", 0, 2}, {"<s>", 0, 3}, {"</s>", 0, 3}, {"a", -1}}));
  sample.tokenizer = Json::parse(R"({"added_tokens": [
    {"id": 2, "content": "</s>", "special": false},
    {"id": 4, "content": "<|end|>", "special": true}]})");
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  const GgufMetadata& metadata = model->metadata;
  EXPECT_EQ(metadata.String("tokenizer.ggml.model"), "llama");
  EXPECT_EQ(*metadata.Find("tokenizer.ggml.tokens"),
            GgufValue::Strings({"<unk>", "<s>", "</s>", "a", "<|end|>"}));
  EXPECT_EQ(*metadata.Find("tokenizer.ggml.token_type"),
            GgufValue::I32s(std::array<int32_t, 5>{2, 3, 4, 1, 3}));
  EXPECT_EQ(*metadata.Find("tokenizer.ggml.scores"),
            GgufValue::F32s(std::array<float, 5>{0, 0, -1000, -1, -1000}));
}

TEST(ConvertPhimoe, WarnsOfWhatTheRuntimeComputesDifferently) {
  const auto model = PhimoeSample().Convert();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_THAT(model->warnings, testing::ElementsAre(HasSubstr("do not subtract the mean")));
}

TEST(ConvertPhimoe, FillsInTheRopeBaseOfTheConfigClass) {
  ConvertSample sample = PhimoeSample();
  sample.config.erase("rope_theta");
  EXPECT_EQ(*sample.Convert()->metadata.Find("phimoe.rope.freq_base"), GgufValue::F32(1e6f));
}

}  // namespace
}  // namespace moepack
