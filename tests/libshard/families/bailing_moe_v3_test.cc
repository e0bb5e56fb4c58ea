#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/graph/model_spec.h"
#include "tests/libshard/families/layout_sample.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(BailingMoeV3, TellsTheKindsOfLayersApartByTheirKeyHeads) {
  LayoutSample ling("bailing-moe-v3");
  const GgufModel model = ling.Converted();
  EXPECT_THAT(model.metadata.Find("bailingmoe3.attention.head_count_kv")->AsUints(),
              testing::Optional(ElementsAre(0, 0, 0, 1, 1)));
  EXPECT_NE(FindTensor(model, "blk.2.ssm_g_a.weight"), nullptr);
  EXPECT_EQ(FindTensor(model, "blk.2.attn_gate.weight"), nullptr);
  EXPECT_NE(FindTensor(model, "blk.3.attn_gate.weight"), nullptr);
  EXPECT_EQ(FindTensor(model, "blk.3.ssm_g_a.weight"), nullptr);
  EXPECT_EQ(FindTensor(model, "blk.0.ssm_a")->shape, (std::vector<uint64_t>{4, 1}));
}

TEST(BailingMoeV3, RefusesLayersThatAreNotOfTheKindThatTheConfigSays) {
  LayoutSample ling("bailing-moe-v3");
  ling.config["layer_group_size"] = 2;  // layers 1 and 3 have latent attention
  EXPECT_THAT(ling.Refusal(),
              HasSubstr("\"model.layers.3.attention.A_log\": expected one as layer 1 has"));
}

TEST(BailingMoeV3, WritesLimitsOfEveryBlockUnlessThereAreNone) {
  LayoutSample ling("bailing-moe-v3");
  EXPECT_EQ(*ling.Converted().metadata.Find("bailingmoe3.swiglu_clamp_exp"),
            GgufValue::F32s(std::vector<float>{0, 7, 0, 5, 0}));
  ConvertOptions decoder;
  decoder.mtp = false;
  EXPECT_EQ(*ling.Converted(decoder).metadata.Find("bailingmoe3.swiglu_clamp_exp"),
            GgufValue::F32s(std::vector<float>{0, 7, 0, 5}));
  ling.config["expert_swiglu_limit_list"] = Json::parse("[null, null, null, null]");
  EXPECT_EQ(ling.Converted().metadata.Find("bailingmoe3.swiglu_clamp_exp"), nullptr);
}

TEST(BailingMoeV3, RefusesWhatTheRuntimeDoesNotCompute) {
  for (const char* field : {"no_kda_lora", "kda_safe_gate"}) {
    LayoutSample ling("bailing-moe-v3");
    ling.config[field] = false;
    EXPECT_THAT(ling.Refusal(), HasSubstr(std::string(field) + ": expected true"));
    ling.config.erase(field);
    EXPECT_THAT(ling.Refusal(), HasSubstr("found none"));
  }
  LayoutSample ling("bailing-moe-v3");
  ling.config["gated_attention_proj_granularity_type"] = "element_wise";
  EXPECT_THAT(ling.Refusal(), HasSubstr("expected head_wise"));
}

TEST(BailingMoeV3, RunsWithTheSizesOfItsHeads) {
  LayoutSample ling("bailing-moe-v3");
  GgufModel model = ling.Converted();
  const auto spec = ReadModelSpec("m.gguf", model.metadata);
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->kda, (KdaShape{4, 16, 4, -5}));
  EXPECT_TRUE(spec->layer[0].recurrent);
  EXPECT_FALSE(spec->layer[3].recurrent);
  EXPECT_EQ(spec->layer[1].expert_limit, 7);
  EXPECT_EQ(spec->latent.rank, 32u);
  model.metadata.Set("bailingmoe3.kda.gate_lower_bound", GgufValue::F32(1));
  EXPECT_THAT(ReadModelSpec("m.gguf", model.metadata).error().message,
              HasSubstr("kda.gate_lower_bound: expected a number below 0, found 1"));
}

}  // namespace
}  // namespace moepack
