#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "libshard/base/text/text.h"
#include "tests/libshard/convert/qwen_hybrid_sample.h"

namespace moepack {
namespace {

using golden::Rows;
using testing::HasSubstr;

const std::string kQwen3NextLinear = "model.layers.0.linear_attn.";

QwenHybridSample Qwen3NextSample() {
  QwenHybridSample sample("Qwen3NextForCausalLM", "qwen3_next");
  sample.Add(kQwen3NextLinear + "in_proj_qkvz.weight", {24, 4});
  sample.Add(kQwen3NextLinear + "in_proj_ba.weight", {8, 4});
  return sample;
}

TEST(ConvertQwen3Next, SplitsQueriesKeysValuesAndGatesOutOfTheirGroups) {
  QwenHybridSample sample = Qwen3NextSample();
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  // Per key head, of which there are two: 2 rows of q, 2 of k, 4 of v, 4 of z.
  const std::vector<float> joined = sample.Values(kQwen3NextLinear + "in_proj_qkvz.weight");
  EXPECT_EQ(sample.Values(*model, "blk.0.attn_qkv.weight"),
            Rows(joined, 4, {0, 1, 12, 13, 2, 3, 14, 15, 4, 5, 6, 7, 16, 17, 18, 19}));
  EXPECT_EQ(sample.Values(*model, "blk.0.attn_gate.weight"),
            Rows(joined, 4, {8, 9, 10, 11, 20, 21, 22, 23}));
  EXPECT_EQ(sample.Values(*model, "blk.0.ssm_ba.weight"),
            sample.Values(kQwen3NextLinear + "in_proj_ba.weight"));
}

TEST(ConvertQwen3Next, DoesNotReorderValueHeads) {
  QwenHybridSample sample = Qwen3NextSample();
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  for (const auto& [source, target] :
       {std::pair("conv1d.weight", "ssm_conv1d.weight"), std::pair("dt_bias", "ssm_dt.bias"),
        std::pair("out_proj.weight", "ssm_out.weight"),
        std::pair("norm.weight", "ssm_norm.weight")}) {
    EXPECT_EQ(sample.Values(*model, Cat("blk.0.", target)),
              sample.Values(kQwen3NextLinear + source))
        << source;
  }
}

TEST(ConvertQwen3Next, WritesTheNegativeExponentialOfTheDecayWithoutASuffix) {
  QwenHybridSample sample = Qwen3NextSample();
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  std::vector<float> expected = sample.Values(kQwen3NextLinear + "A_log");
  for (float& value : expected) value = -std::exp(value);
  EXPECT_THAT(sample.Values(*model, "blk.0.ssm_a"),
              testing::Pointwise(testing::FloatEq(), expected));
}

TEST(ConvertQwen3Next, AddsOneToEveryNormExceptThatOfLinearAttention) {
  QwenHybridSample sample = Qwen3NextSample();
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  const std::pair<const char*, const char*> norms[] = {
      {"model.norm", "output_norm"},
      {"model.layers.0.input_layernorm", "blk.0.attn_norm"},
      {"model.layers.0.post_attention_layernorm", "blk.0.post_attention_norm"},
      {"model.layers.1.self_attn.q_norm", "blk.1.attn_q_norm"},
      {"model.layers.1.self_attn.k_norm", "blk.1.attn_k_norm"},
      {"mtp.layers.0.input_layernorm", "blk.2.attn_norm"},
      {"mtp.norm", "blk.2.nextn.shared_head_norm"},
      {"mtp.pre_fc_norm_embedding", "blk.2.nextn.enorm"},
      {"mtp.pre_fc_norm_hidden", "blk.2.nextn.hnorm"}};
  for (const auto& [source, target] : norms) {
    std::vector<float> expected = sample.Values(std::string(source) + ".weight");
    for (float& value : expected) value += 1;
    EXPECT_EQ(sample.Values(*model, std::string(target) + ".weight"), expected) << source;
  }
  EXPECT_EQ(sample.Values(*model, "blk.0.ssm_norm.weight"),
            sample.Values(kQwen3NextLinear + "norm.weight"));
}

TEST(ConvertQwen3Next, WritesTheSizesOfLinearAttention) {
  QwenHybridSample sample = Qwen3NextSample();
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  const std::pair<const char*, uint64_t> expected[] = {{"ssm.conv_kernel", 3},
                                                       {"ssm.state_size", 2},
                                                       {"ssm.group_count", 2},
                                                       {"ssm.time_step_rank", 4},
                                                       {"ssm.inner_size", 8},
                                                       {"full_attention_interval", 2},
                                                       {"rope.dimension_count", 1},
                                                       {"attention.key_length", 4},
                                                       {"attention.value_length", 4},
                                                       {"block_count", 3},
                                                       {"nextn_predict_layers", 1},
                                                       {"expert_feed_forward_length", 2},
                                                       {"expert_shared_feed_forward_length", 2}};
  for (const auto& [key, value] : expected) {
    EXPECT_EQ(model->metadata.Uint(Cat("qwen3next.", key)), value) << key;
  }
  EXPECT_EQ(model->metadata.Find("qwen3next.rope.dimension_sections"), nullptr);
}

// The real configs have no layer_types; transformers derives them from the interval, so that
// llama.cpp's converter always sees them.
TEST(ConvertQwen3Next, WithoutLayerTypesTheRecurrentLayersFollowTheInterval) {
  QwenHybridSample sample = Qwen3NextSample();
  ASSERT_FALSE(sample.config.contains("layer_types"));
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  const GgufValue* layers = model->metadata.Find("qwen3next.attention.recurrent_layers");
  ASSERT_NE(layers, nullptr);
  EXPECT_EQ(*layers, GgufValue::Bools({true, false, false}));  // the last predicts more tokens
  sample.config["layer_types"] = {"linear_attention", "full_attention"};
  const auto listed = sample.Convert();
  ASSERT_TRUE(listed) << listed.error().message;
  EXPECT_EQ(*listed->metadata.Find("qwen3next.attention.recurrent_layers"), *layers);
}

TEST(ConvertQwen3Next, RefusesRouterWeightsThatAreNotRenormalised) {
  QwenHybridSample sample = Qwen3NextSample();
  sample.config["norm_topk_prob"] = false;
  EXPECT_THAT(sample.Convert().error().message, HasSubstr("norm_topk_prob: expected true"));
}

}  // namespace
}  // namespace moepack
