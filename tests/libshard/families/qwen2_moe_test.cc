#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/libshard/convert/sample.h"

namespace moepack {
namespace {

using testing::HasSubstr;

// Heads of hidden size / heads, biases, a shared expert of width 3.
ConvertSample Qwen2MoeSample() {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  sample.config["architectures"] = {"Qwen2MoeForCausalLM"};
  sample.config["model_type"] = "qwen2_moe";
  sample.config["norm_topk_prob"] = false;
  sample.config["shared_expert_intermediate_size"] = 3;
  sample.config.erase("head_dim");
  sample.Remove("q_norm");
  sample.Remove("k_norm");
  const std::string at = "model.layers.0.";
  sample.Add(at + "self_attn.q_proj.bias", {4});
  sample.Add(at + "self_attn.k_proj.bias", {2});
  sample.Add(at + "self_attn.v_proj.bias", {2});
  sample.Add(at + "mlp.shared_expert.gate_proj.weight", {3, 4});
  sample.Add(at + "mlp.shared_expert.up_proj.weight", {3, 4});
  sample.Add(at + "mlp.shared_expert.down_proj.weight", {4, 3});
  sample.Add(at + "mlp.shared_expert_gate.weight", {1, 4});
  return sample;
}

TEST(ConvertQwen2Moe, KeepsTheThreeGatesSeparate) {
  ConvertSample sample = Qwen2MoeSample();
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  const std::string from = "model.layers.0.mlp.", to = "blk.0.ffn_gate_";
  EXPECT_EQ(sample.Values(*model, to + "inp.weight"), sample.Values(from + "gate.weight"));
  EXPECT_EQ(sample.Values(*model, to + "inp_shexp.weight"),
            sample.Values(from + "shared_expert_gate.weight"));
  EXPECT_EQ(sample.Values(*model, to + "shexp.weight"),
            sample.Values(from + "shared_expert.gate_proj.weight"));
  EXPECT_EQ(sample.Values(*model, "blk.0.attn_k.bias"),
            sample.Values("model.layers.0.self_attn.k_proj.bias"));
}

TEST(ConvertQwen2Moe, WritesBothWidths) {
  ConvertSample sample = Qwen2MoeSample();
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->architecture(), "qwen2moe");
  EXPECT_EQ(model->metadata.Uint("qwen2moe.expert_feed_forward_length"), 2u);
  EXPECT_EQ(model->metadata.Uint("qwen2moe.expert_shared_feed_forward_length"), 3u);
}

TEST(ConvertQwen2Moe, FillsInMissingWidthsFromTheConfigClass) {
  ConvertSample sample = Qwen2MoeSample();
  sample.config.erase("shared_expert_intermediate_size");
  const std::string shared = "model.layers.0.mlp.shared_expert.";
  sample.Reshape(shared + "gate_proj.weight", {5632, 4});
  sample.Reshape(shared + "up_proj.weight", {5632, 4});
  sample.Reshape(shared + "down_proj.weight", {4, 5632});
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->metadata.Uint("qwen2moe.expert_shared_feed_forward_length"), 5632u);
  sample.config.erase("moe_intermediate_size");
  const auto contradicted = sample.Convert();
  ASSERT_FALSE(contradicted);
  EXPECT_THAT(contradicted.error().message,
              HasSubstr("0.down_proj.weight\" and 1 like it: expected [4, 1408] (width of an "
                        "expert and hidden size), found [4, 2]"));
}

TEST(ConvertQwen2Moe, WritesTheHeadEvenIfItIsTied) {
  ConvertSample sample = Qwen2MoeSample();
  sample.config["tie_word_embeddings"] = true;
  sample.Remove("lm_head");
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(sample.Values(*model, "output.weight"), sample.Values("model.embed_tokens.weight"));
}

TEST(ConvertQwen2Moe, RefusesRenormalisedRouterWeights) {
  ConvertSample sample = Qwen2MoeSample();
  sample.config["norm_topk_prob"] = true;
  EXPECT_THAT(sample.Convert().error().message, HasSubstr("norm_topk_prob: expected false"));
}

TEST(ConvertQwen2Moe, RefusesHeadsThatDoNotFillTheHiddenSize) {
  ConvertSample sample = Qwen2MoeSample();
  sample.config["head_dim"] = 4;
  sample.SetHeads(2, 4, 4);
  sample.Remove("_proj.bias");
  sample.Add("model.layers.0.self_attn.q_proj.bias", {8});
  sample.Add("model.layers.0.self_attn.k_proj.bias", {4});
  sample.Add("model.layers.0.self_attn.v_proj.bias", {4});
  const auto model = sample.Convert();
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, Code::kUnsupported);
  EXPECT_THAT(model.error().message, HasSubstr("expected hidden size / heads (4 / 2)"));
}

TEST(ConvertQwen2Moe, NamesAMissingPartOfTheSharedExpert) {
  ConvertSample sample = Qwen2MoeSample();
  sample.Remove("shared_expert.up_proj");
  EXPECT_THAT(sample.Convert().error().message,
              HasSubstr("blk.0.ffn_up_shexp.weight: expected a source tensor"));
}

}  // namespace
}  // namespace moepack
