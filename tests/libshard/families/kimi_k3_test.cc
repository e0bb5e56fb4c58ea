#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/graph/model_spec.h"
#include "tests/libshard/families/layout_sample.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(KimiK3, ReadsTheKindsOfLayersFromListsThatCountFromOne) {
  LayoutSample kimi("kimi-k3");
  EXPECT_THAT(kimi.Converted().metadata.Find("kimi-k3.attention.head_count_kv")->AsUints(),
              testing::Optional(ElementsAre(0, 0, 1, 1)));
  kimi.config["text_config"]["linear_attn_config"]["kda_layers"] = {1, 3};
  EXPECT_THAT(kimi.Refusal(), HasSubstr("kda_layers: expected numbers from 1 to 4, each in one "
                                        "list, found 3 twice"));
  kimi.config["text_config"]["linear_attn_config"]["kda_layers"] = {1};
  EXPECT_THAT(kimi.Refusal(), HasSubstr("expected linear_attention or full_attention"));
}

TEST(KimiK3, TakesAsManyRatesAsThereAreHeads) {
  LayoutSample kimi("kimi-k3");
  const GgufModel model = kimi.Converted();
  EXPECT_THAT(FindTensor(model, "blk.0.ssm_a")->shape, ElementsAre(4));  // of 8
}

TEST(KimiK3, MultipliesNormAndProjectionOfTheResidualsScores) {
  LayoutSample kimi("kimi-k3");
  const GgufModel model = kimi.Converted();
  for (const char* name :
       {"blk.0.attn_res_score.weight", "blk.3.ffn_res_score.weight", "output_res_score.weight"}) {
    const GgufTensor* score = FindTensor(model, name);
    ASSERT_NE(score, nullptr) << name;
    EXPECT_THAT(score->shape, ElementsAre(64));
    EXPECT_EQ(score->type->name, "f32");
  }
}

TEST(KimiK3, RefusesWhatTheRuntimeDoesNotCompute) {
  LayoutSample kimi("kimi-k3");
  Json& text = kimi.config["text_config"];
  text["mla_use_nope"] = false;
  EXPECT_THAT(kimi.Refusal(), HasSubstr("mla_use_nope: expected true"));
  text["mla_use_nope"] = true;
  text["linear_attn_config"]["use_full_rank_gate"] = false;
  EXPECT_THAT(kimi.Refusal(), HasSubstr("use_full_rank_gate: expected true"));
  text["linear_attn_config"]["use_full_rank_gate"] = true;
  text["linear_attn_config"]["num_heads"] = 2;
  EXPECT_THAT(kimi.Refusal(), HasSubstr("num_heads: expected num_attention_heads (4), found 2"));
  text["linear_attn_config"]["num_heads"] = 4;
  text["hidden_act"] = "silu";
  EXPECT_THAT(kimi.Refusal(), HasSubstr("hidden_act: expected situ"));
}

TEST(KimiK3, RunsWithResidualAttentionAndBoundedActivations) {
  LayoutSample kimi("kimi-k3");
  GgufModel model = kimi.Converted();
  const auto spec = ReadModelSpec("m.gguf", model.metadata);
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->kda, (KdaShape{4, 16, 4, -5, true}));
  EXPECT_TRUE(spec->layer[1].recurrent);
  EXPECT_FALSE(spec->layer[2].recurrent);
  EXPECT_FALSE(spec->layer[2].rope);
  EXPECT_TRUE(spec->gated_attention);
  EXPECT_EQ(spec->expert_space, 32u);
  EXPECT_EQ(spec->activation, Activation(Activation::kSitu, 4, 25));
  EXPECT_EQ(spec->expert_activation, spec->activation);
}

TEST(KimiK3, KeepsAStreamBeforeEachBlock) {
  ModelSpec spec;
  spec.layers = 5;
  spec.width = 8;
  spec.residual_block = 2;
  std::vector<uint32_t> kept;
  for (uint32_t layer = 0; layer <= spec.layers; ++layer) kept.push_back(spec.KeptBefore(layer));
  EXPECT_THAT(kept, ElementsAre(0, 1, 1, 2, 2, 3));
  EXPECT_TRUE(spec.KeepsStream(0));
  EXPECT_FALSE(spec.KeepsStream(1));
  EXPECT_TRUE(spec.KeepsStream(4));
  EXPECT_EQ(spec.stream_width(), 32u);
  spec.residual_block = 0;
  EXPECT_FALSE(spec.KeepsStream(0));
  EXPECT_EQ(spec.stream_width(), 8u);
}

TEST(KimiK3, DoesNotRunWithoutABoundOfTheActivation) {
  LayoutSample kimi("kimi-k3");
  GgufModel model = kimi.Converted();
  model.metadata.Set("kimi-k3.activation.situ_beta", GgufValue::F32(0));
  EXPECT_THAT(ReadModelSpec("m.gguf", model.metadata).error().message,
              HasSubstr("activation.situ_beta: expected a number above 0, found 0"));
  model.metadata.Set("kimi-k3.activation.situ_beta", GgufValue::F32(4));
  model.metadata.Set("kimi-k3.activation.situ_linear_beta", GgufValue::F32(-1));
  EXPECT_EQ(ReadModelSpec("m.gguf", model.metadata)->activation.up_limit, 0);
}

}  // namespace
}  // namespace moepack
