#include "libshard/model/gguf_experts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

namespace moepack {
namespace {

TensorClass ClassOf(const std::string& name) {
  FamilyMatcher matcher(GgufFamily(), 10);
  return matcher.Classify(name);
}

TEST(GgufFamily, HasOnlyValidRows) {
  for (const TensorRule& rule : GgufFamily().rules) {
    EXPECT_EQ(RuleProblem(rule), "") << rule.pattern;
  }
}

TEST(GgufFamily, KnowsEveryTensorWithAnExpertAxis) {
  const std::tuple<const char*, Part, const char*> rows[] = {
      {"blk.3.ffn_gate_exps.weight", Part::kExpert, "gate"},
      {"blk.3.ffn_up_exps.bias", Part::kExpert, "up"},
      {"blk.3.ffn_down_exps.scale", Part::kExpert, "down"},
      {"blk.3.ffn_down_exps.input_scale", Part::kExpert, "down"},
      {"blk.3.ffn_gate_up_exps.weight", Part::kExpert, "gate_up"},
      {"blk.3.ffn_gate_inp.weight", Part::kRouter, "router"},
      {"blk.3.ffn_gate_inp.bias", Part::kRouter, "router"},
      {"blk.3.exp_probs_b.bias", Part::kRouter, "selection_bias"},
      {"blk.3.exp_probs_b", Part::kRouter, "selection_bias"},
      {"blk.3.exp_probs_b_vl.bias", Part::kRouter, "selection_bias"}};
  for (const auto& [name, part, role] : rows) {
    const TensorClass found = ClassOf(name);
    ASSERT_NE(found.rule, nullptr) << name;
    EXPECT_EQ(PartName(found.rule->part), PartName(part)) << name;
    EXPECT_EQ(found.rule->role, role) << name;
    EXPECT_EQ(found.rule->expert_axis, 0) << name;
    EXPECT_EQ(found.layer, 3) << name;
  }
  EXPECT_TRUE(ClassOf("blk.0.ffn_gate_tid2eid.weight").rule->holds_expert_ids);
}

TEST(GgufFamily, ATensorThatOnlyLooksLikeAnExpertIsTrunk) {
  for (const char* name : {"blk.0.ffn_gate_shexp.weight", "blk.0.ffn_down_shexp.scale",
                           "blk.0.ffn_gate_inp_shexp.weight"}) {
    EXPECT_EQ(PartName(ClassOf(name).rule->part), "shared") << name;
  }
  for (const char* name :
       {"blk.0.ffn_norm_exps.weight", "blk.0.ffn_latent_down.weight", "blk.0.ffn_gate.weight",
        "blk.0.ffn_gate_chexps.weight", "blk.0.attn_q.weight", "blk.0.ssm_a", "token_embd.weight",
        "output.weight", "output_norm.weight", "rope_freqs.weight", "v.blk.0.ffn_gate.weight"}) {
    EXPECT_EQ(PartName(ClassOf(name).rule->part), "trunk") << name;
    EXPECT_FALSE(ClassOf(name).rule->expert_axis) << name;
  }
}

TEST(GgufFamily, BlocksAfterTheDecoderAreMtp) {
  EXPECT_TRUE(ClassOf("blk.10.ffn_up_exps.weight").mtp);
  EXPECT_TRUE(ClassOf("blk.10.nextn.eh_proj.weight").mtp);
  EXPECT_FALSE(ClassOf("blk.9.ffn_up_exps.weight").mtp);
}

TEST(IsKnownTrunk, KnowsTheNamesOfWholeModelsAndOfBlocks) {
  for (const char* name :
       {"token_embd.weight", "output.weight", "output_norm.bias", "rope_factors_long.weight",
        "blk.0.attn_sinks.weight", "blk.12.ssm_conv1d.weight", "blk.3.nextn.enorm.weight",
        "blk.0.indexer.proj.weight", "blk.0.ffn_gate.weight", "blk.0.ffn_norm.weight",
        "blk.0.ffn_norm_exps.weight", "blk.0.ffn_latent_up.weight", "blk.0.post_ffw_norm.weight",
        "blk.0.ffn_up_shexp.weight"}) {
    EXPECT_TRUE(IsKnownTrunk(name)) << name;
  }
}

TEST(IsKnownTrunk, RejectsExpertsAndUnknownNames) {
  for (const char* name :
       {"blk.0.ffn_gate_exps.weight", "blk.0.ffn_gate_inp.weight", "blk.0.exp_probs_b.bias",
        "blk.0.ffn_mystery.weight", "blk.0.ffn_gate.3.weight", "mystery.weight",
        "blk.x.attn_q.weight", "blk.0", "", "blk."}) {
    EXPECT_FALSE(IsKnownTrunk(name)) << name;
  }
}

TEST(IsLegacyExpert, RecognizesOneTensorPerExpert) {
  EXPECT_TRUE(IsLegacyExpert("blk.0.ffn_gate.7.weight"));
  EXPECT_TRUE(IsLegacyExpert("blk.31.ffn_down.0.weight"));
  EXPECT_FALSE(IsLegacyExpert("blk.0.ffn_gate.weight"));
  EXPECT_FALSE(IsLegacyExpert("blk.0.ffn_gate_exps.weight"));
  EXPECT_FALSE(IsLegacyExpert("blk.0.attn_q.7.weight"));
}

}  // namespace
}  // namespace moepack
