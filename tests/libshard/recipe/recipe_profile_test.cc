#include "libshard/recipe/recipe_profile.h"

#include <gtest/gtest.h>

#include "libshard/recipe/recipe.h"
#include "libshard/recipe/recipe_list.h"
#include "tests/libshard/recipe/recipe_model.h"

namespace moepack {
namespace {

GgufModel RecipeProfileApplied(const std::string& profile, GgufModel model = RecipeModel()) {
  RecipeOptions options;
  options.recipe = profile;
  const auto applied = ApplyRecipe(options, model);
  EXPECT_TRUE(applied) << applied.error().message;
  return model;
}

TEST(RecipeProfile, GivesExpertsTheirOwnTypes) {
  const GgufModel high = RecipeProfileApplied("high"), balanced = RecipeProfileApplied("balanced");
  EXPECT_EQ(TypeOf(high, "blk.5.ffn_gate_exps.weight"), "q5_K");
  EXPECT_EQ(TypeOf(high, "blk.5.ffn_up_exps.weight"), "q5_K");
  EXPECT_EQ(TypeOf(high, "blk.5.ffn_down_exps.weight"), "q6_K");
  EXPECT_EQ(TypeOf(balanced, "blk.5.ffn_up_exps.weight"), "q4_K");
  EXPECT_EQ(TypeOf(balanced, "blk.31.ffn_down_exps.weight"), "q5_K");
  for (const GgufModel* model : {&high, &balanced}) {
    for (const char* name : {"token_embd.weight", "output.weight", "blk.5.attn_v.weight"}) {
      EXPECT_EQ(TypeOf(*model, name), "q8_0") << name;
    }
    EXPECT_EQ(TypeOf(*model, "blk.5.ffn_gate_inp.weight"), "f32");
    EXPECT_EQ(TypeOf(*model, "blk.5.attn_norm.weight"), "f32");
  }
}

TEST(RecipeProfile, UsesSmallerTypesForACompactModel) {
  const GgufModel model = RecipeProfileApplied("compact");
  EXPECT_EQ(TypeOf(model, "blk.0.ffn_gate_exps.weight"), "q3_K");
  EXPECT_EQ(TypeOf(model, "blk.0.ffn_down_exps.weight"), "iq4_xs");
  EXPECT_EQ(TypeOf(model, "token_embd.weight"), "q6_K");
  EXPECT_EQ(TypeOf(model, "output.weight"), "q8_0");
  EXPECT_EQ(TypeOf(model, "blk.0.attn_q.weight"), "q8_0");
}

TEST(RecipeProfile, CountsSharedExpertsAsTrunkAndFusedMatricesAsGate) {
  GgufModel model = RecipeModel();
  model.tensors.push_back(RecipeTensor("blk.0.ffn_down_shexp.weight", {512, 256}));
  model.tensors.back().part = Part::kShared;
  model.tensors.push_back(RecipeTensor("blk.1.ffn_gate_up_exps.weight", {16, 512, 512}));
  model = RecipeProfileApplied("balanced", model);
  EXPECT_EQ(TypeOf(model, "blk.0.ffn_down_shexp.weight"), "q8_0");
  EXPECT_EQ(TypeOf(model, "blk.1.ffn_gate_up_exps.weight"), "q4_K");
}

TEST(RecipeProfile, KeepsEveryTypeOfTheSourceForAnExactModel) {
  GgufModel source = RecipeModel({.stored = "q4_K"});
  source.metadata.Set("general.file_type", GgufValue::U32(14));
  const GgufModel kept = RecipeProfileApplied("exact", source);
  EXPECT_EQ(TypeOf(kept, "blk.0.ffn_down_exps.weight"), "q4_K");
  EXPECT_EQ(TypeOf(kept, "blk.0.attn_norm.weight"), "f32");
  const GgufModel half = RecipeProfileApplied("exact", RecipeModel({.stored = "f16"}));
  EXPECT_EQ(TypeOf(half, "token_embd.weight"), "f16");
}

TEST(RecipeProfile, WritesTheFileTypeOfMostValues) {
  const auto file_type = [](const GgufModel& model) {
    return model.metadata.Uint("general.file_type");
  };
  EXPECT_EQ(file_type(RecipeProfileApplied("high")), 17u);
  EXPECT_EQ(file_type(RecipeProfileApplied("balanced")), 15u);
  EXPECT_EQ(file_type(RecipeProfileApplied("compact")), 12u);
  EXPECT_EQ(file_type(RecipeProfileApplied("exact")), 32u);
}

TEST(RecipeProfile, KeepsTheFileTypeOfAnUnchangedSource) {
  GgufModel model;
  model.metadata.Set("general.architecture", GgufValue::String("qwen3moe"));
  model.metadata.Set("general.file_type", GgufValue::U32(14));
  model.tensors.push_back(RecipeTensor("blk.0.attn_q.weight", {256, 256}, "q4_K"));
  EXPECT_EQ(RecipeProfileApplied("exact", model).metadata.Uint("general.file_type"), 14u);
}

TEST(RecipeProfile, BelongsToItsRecipe) {
  EXPECT_NE(FindRecipe("compact")->profile, nullptr);
  EXPECT_EQ(FindRecipe("Q4_K_M")->profile, nullptr);
}

}  // namespace
}  // namespace moepack
