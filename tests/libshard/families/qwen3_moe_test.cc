#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/libshard/convert/sample.h"

namespace moepack {
namespace {

using testing::HasSubstr;

TEST(ConvertQwen3Moe, DoesNotPermuteQueriesAndKeys) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  const std::string at = "model.layers.0.self_attn.";
  EXPECT_EQ(sample.Values(*model, "blk.0.attn_q.weight"), sample.Values(at + "q_proj.weight"));
  EXPECT_EQ(sample.Values(*model, "blk.0.attn_k.weight"), sample.Values(at + "k_proj.weight"));
}

TEST(ConvertQwen3Moe, AlwaysWritesTheWidthOfAnExpert) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  EXPECT_EQ(*sample.Convert()->metadata.Find("qwen3moe.expert_feed_forward_length"),
            GgufValue::U32(2));
  sample.config.erase("moe_intermediate_size");
  EXPECT_THAT(sample.Convert().error().message,
              HasSubstr("moe_intermediate_size or expert_intermediate_size"));
}

TEST(ConvertQwen3Moe, RefusesRouterWeightsThatAreNotRenormalised) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  sample.config["norm_topk_prob"] = false;
  const auto model = sample.Convert();
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, Code::kUnsupported);
  EXPECT_THAT(model.error().message, HasSubstr("norm_topk_prob: expected true"));
}

TEST(ConvertQwen3Moe, RefusesAnActivationThatTheRuntimeDoesNotHave) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  for (const char* name : {"silu", "swish"}) {
    sample.config["hidden_act"] = name;
    EXPECT_TRUE(sample.Convert()) << name;
  }
  for (const Json& other : {Json("gelu"), Json("relu2"), Json(7)}) {
    sample.config["hidden_act"] = other;
    const auto model = sample.Convert();
    ASSERT_FALSE(model) << other;
    EXPECT_EQ(model.error().code, Code::kUnsupported);
    EXPECT_THAT(model.error().message, HasSubstr("hidden_act: expected silu, the only one that"));
  }
}

TEST(ConvertQwen3Moe, RefusesLayersWithoutExperts) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  sample.config["num_hidden_layers"] = 2;
  sample.config["mlp_only_layers"] = {1};
  for (const char* name : {"gate_proj", "up_proj"}) {
    sample.Add(std::string("model.layers.1.mlp.") + name + ".weight", {6, 4});
  }
  const auto model = sample.Convert();
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, Code::kUnsupported);
  EXPECT_THAT(model.error().message, HasSubstr("layer 1: expected routed experts, which the "
                                               "runtime's qwen3moe has in every layer"));
}

TEST(ConvertQwen3Moe, SplitsFusedExpertsByRows) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  sample.Remove("experts");
  sample.Add("model.layers.0.mlp.experts.gate_up_proj", {2, 4, 4});
  sample.Add("model.layers.0.mlp.experts.down_proj", {2, 4, 2});
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  const std::vector<float> fused = sample.Values("model.layers.0.mlp.experts.gate_up_proj");
  std::vector<float> gate, up;
  for (size_t i = 0; i < fused.size(); ++i) (i % 16 < 8 ? gate : up).push_back(fused[i]);
  EXPECT_EQ(sample.Values(*model, "blk.0.ffn_gate_exps.weight"), gate);
  EXPECT_EQ(sample.Values(*model, "blk.0.ffn_up_exps.weight"), up);
  EXPECT_EQ(sample.Values(*model, "blk.0.ffn_down_exps.weight"),
            sample.Values("model.layers.0.mlp.experts.down_proj"));
  for (const GgufTensor& tensor : model->tensors) {
    EXPECT_THAT(tensor.name, testing::Not(HasSubstr("gate_up"))) << "the runtime refuses it";
  }
}

TEST(ConvertQwen3Moe, RefusesAnEmbeddingOfAnotherSizeThanTheVocabulary) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  sample.config["vocab_size"] = 6;
  EXPECT_THAT(sample.Convert().error().message,
              HasSubstr("misshapen: tensor \"model.embed_tokens.weight\": expected [6, 4] "
                        "(vocab_size, hidden_size), found [5, 4]; misshapen: tensor "
                        "\"lm_head.weight\": expected"));
}

TEST(ConvertQwen3Moe, TakesThePreTokenizerThatTheUserNames) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  EXPECT_EQ(sample.Convert()->metadata.String("tokenizer.ggml.pre"), "gpt-2");
  EXPECT_EQ(sample.Convert(ConvertOptions{.pre = "olmo"})->metadata.String("tokenizer.ggml.pre"),
            "olmo");
}

}  // namespace
}  // namespace moepack
