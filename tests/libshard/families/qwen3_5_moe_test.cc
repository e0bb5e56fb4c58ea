#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "libshard/base/text/text.h"
#include "tests/libshard/convert/qwen_hybrid_sample.h"

namespace moepack {
namespace {

using golden::Rows;

const std::string kQwen35Linear = "model.layers.0.linear_attn.";

QwenHybridSample Qwen35MoeSample() {
  QwenHybridSample sample("Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe");
  sample.Add(kQwen35Linear + "in_proj_qkv.weight", {16, 4});
  sample.Add(kQwen35Linear + "in_proj_z.weight", {8, 4});
  sample.Add(kQwen35Linear + "in_proj_b.weight", {4, 4});
  sample.Add(kQwen35Linear + "in_proj_a.weight", {4, 4});
  return sample;
}

// Value heads 0 and 1 belong to key head 0, 2 and 3 to key head 1; tiled, the order is 0, 2, 1, 3.
TEST(ConvertQwen35Moe, TilesEveryTensorWithAPartPerValueHead) {
  QwenHybridSample sample = Qwen35MoeSample();
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  struct Case {
    const char* source;
    const char* target;
    size_t width;
    std::vector<size_t> rows;
  };
  const std::vector<size_t> tail = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15};
  const Case cases[] = {{"in_proj_qkv.weight", "attn_qkv.weight", 4, tail},
                        {"conv1d.weight", "ssm_conv1d.weight", 3, tail},
                        {"in_proj_z.weight", "attn_gate.weight", 4, {0, 1, 4, 5, 2, 3, 6, 7}},
                        {"in_proj_b.weight", "ssm_beta.weight", 4, {0, 2, 1, 3}},
                        {"in_proj_a.weight", "ssm_alpha.weight", 4, {0, 2, 1, 3}},
                        {"dt_bias", "ssm_dt.bias", 1, {0, 2, 1, 3}}};
  for (const Case& test : cases) {
    EXPECT_EQ(sample.Values(*model, Cat("blk.0.", test.target)),
              Rows(sample.Values(kQwen35Linear + test.source), test.width, test.rows))
        << test.source;
  }
}

TEST(ConvertQwen35Moe, TilesTheColumnsOfTheOutputProjection) {
  QwenHybridSample sample = Qwen35MoeSample();
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  const std::vector<float> from = sample.Values(kQwen35Linear + "out_proj.weight");
  std::vector<float> expected;
  for (size_t row = 0; row < 4; ++row) {
    for (const size_t column : {0, 1, 4, 5, 2, 3, 6, 7}) expected.push_back(from[row * 8 + column]);
  }
  EXPECT_EQ(sample.Values(*model, "blk.0.ssm_out.weight"), expected);
}

TEST(ConvertQwen35Moe, DoesNotReorderValueHeadsThatEachHaveAKeyHead) {
  QwenHybridSample sample = Qwen35MoeSample();
  sample.config["linear_num_value_heads"] = 2;
  for (const char* name :
       {"in_proj_qkv.weight", "in_proj_z.weight", "in_proj_b.weight", "in_proj_a.weight",
        "conv1d.weight", "A_log", "dt_bias", "out_proj.weight"}) {
    sample.Remove(kQwen35Linear + name);
  }
  sample.Add(kQwen35Linear + "in_proj_qkv.weight", {12, 4});
  sample.Add(kQwen35Linear + "in_proj_z.weight", {4, 4});
  sample.Add(kQwen35Linear + "in_proj_b.weight", {2, 4});
  sample.Add(kQwen35Linear + "in_proj_a.weight", {2, 4});
  sample.Add(kQwen35Linear + "conv1d.weight", {12, 1, 3});
  sample.Add(kQwen35Linear + "A_log", {2});
  sample.Add(kQwen35Linear + "dt_bias", {2});
  sample.Add(kQwen35Linear + "out_proj.weight", {4, 4});
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(sample.Values(*model, "blk.0.attn_qkv.weight"),
            sample.Values(kQwen35Linear + "in_proj_qkv.weight"));
  EXPECT_EQ(sample.Values(*model, "blk.0.ssm_out.weight"),
            sample.Values(kQwen35Linear + "out_proj.weight"));
}

TEST(ConvertQwen35Moe, TakesExpertsThatAreTensorsOfTheirOwn) {
  QwenHybridSample sample = Qwen35MoeSample();
  sample.Remove("model.layers.0.mlp.experts");
  for (const char* expert : {"1", "0"}) {
    const std::string at = Cat("model.layers.0.mlp.experts.", expert, ".");
    sample.Add(at + "gate_proj.weight", {2, 4});
    sample.Add(at + "up_proj.weight", {2, 4});
    sample.Add(at + "down_proj.weight", {4, 2});
  }
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  std::vector<float> expected = sample.Values("model.layers.0.mlp.experts.0.up_proj.weight");
  const std::vector<float> second = sample.Values("model.layers.0.mlp.experts.1.up_proj.weight");
  expected.insert(expected.end(), second.begin(), second.end());
  EXPECT_EQ(sample.Values(*model, "blk.0.ffn_up_exps.weight"), expected);
}

TEST(ConvertQwen35Moe, AlwaysWritesFourRopeSections) {
  QwenHybridSample sample = Qwen35MoeSample();
  const char* key = "qwen35moe.rope.dimension_sections";
  EXPECT_EQ(*sample.Convert()->metadata.Find(key),
            GgufValue::I32s(std::array<int32_t, 4>{11, 11, 10, 0}));
  sample.config["rope_parameters"] = {{"mrope_section", {1, 1, 0}}, {"rope_theta", 1e6}};
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(*model->metadata.Find(key), GgufValue::I32s(std::array<int32_t, 4>{1, 1, 0, 0}));
  EXPECT_EQ(*model->metadata.Find("qwen35moe.rope.freq_base"), GgufValue::F32(1e6f));
}

TEST(ConvertQwen35Moe, SaysHowManyVisionTensorsAreLeftOut) {
  QwenHybridSample sample = Qwen35MoeSample();
  sample.Add("model.visual.blocks.0.norm1.weight", {4});
  sample.Add("model.visual.pos_embed.weight", {2, 4});
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_THAT(model->warnings,
              testing::ElementsAre(testing::HasSubstr("left out 2 vision tensors")));
}

}  // namespace
}  // namespace moepack
