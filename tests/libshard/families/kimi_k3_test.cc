#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace moepack
