// Rules that the listings of recipe_golden_test.cc do not reach: real numbers of layers and
// experts. Expected values are taken from docs/quantization.md.
#include "libshard/recipe/recipe_llama.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/recipe/recipe.h"
#include "tests/libshard/recipe/recipe_model.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

GgufModel RecipeLlamaApplied(const std::string& recipe, GgufModel model) {
  RecipeOptions options;
  options.recipe = recipe;
  const auto applied = ApplyRecipe(options, model);
  EXPECT_TRUE(applied) << applied.error().message;
  return model;
}

// The layers whose `leaf` has `type`.
std::vector<uint32_t> LayersWith(const GgufModel& model, const std::string& leaf,
                                 const std::string& type) {
  std::vector<uint32_t> layers;
  for (uint32_t layer = 0; layer < 32; ++layer) {
    if (TypeOf(model, Cat("blk.", layer, ".", leaf, ".weight")) == type) layers.push_back(layer);
  }
  return layers;
}

TEST(LlamaRules, OrderTensorsOutsideBlocksFirstAndThenByLayer) {
  std::vector<GgufTensor> tensors;
  for (const char* name : {"blk.10.a.weight", "token_embd.weight", "blk.2.b.weight",
                           "blk.2.a.weight", "output.weight", "blk.x.weight"}) {
    tensors.push_back(RecipeTensor(name, {1, 1}));
  }
  EXPECT_THAT(LlamaOrder(tensors), ElementsAre(5, 4, 1, 3, 2, 0));
}

TEST(LlamaRules, GiveMoreBitsToEveryThirdLayerBetweenTheEighthsAtTheEnds) {
  const GgufModel model = RecipeLlamaApplied("Q4_K_M", RecipeModel());
  const std::vector<uint32_t> more = {0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31};
  EXPECT_EQ(LayersWith(model, "ffn_down_exps", "q6_K"), more);
  EXPECT_EQ(LayersWith(model, "attn_v", "q6_K"), more);
  EXPECT_EQ(TypeOf(model, "blk.0.ffn_up_exps.weight"), "q4_K");
  EXPECT_EQ(TypeOf(model, "token_embd.weight"), "q4_K");
  EXPECT_EQ(TypeOf(model, "output.weight"), "q6_K");
}

TEST(LlamaRules, CountTheBlocksOfMultiTokenPredictionToo) {
  GgufModel model = RecipeModel();
  model.metadata.Set("qwen3moe.block_count", GgufValue::U32(40));
  model = RecipeLlamaApplied("Q4_K_M", model);
  EXPECT_EQ(TypeOf(model, "blk.28.ffn_down_exps.weight"), "q6_K");  // (28 - 5) % 3 == 2
  EXPECT_EQ(TypeOf(model, "blk.31.ffn_down_exps.weight"), "q6_K");
  EXPECT_EQ(TypeOf(model, "blk.30.ffn_down_exps.weight"), "q4_K");
}

TEST(LlamaRules, CountValuesInOrderOfTheirLayersWhateverTheOrderInTheFile) {
  GgufModel model = RecipeModel();
  std::reverse(model.tensors.begin(), model.tensors.end());
  model = RecipeLlamaApplied("Q3_K_M", model);
  EXPECT_THAT(LayersWith(model, "attn_v", "q5_K"), ElementsAre(0, 1));
  EXPECT_EQ(TypeOf(model, "blk.2.attn_v.weight"), "q4_K");
}

TEST(LlamaRules, CountFusedMatricesAsValues) {
  GgufModel model = RecipeModel({.layers = 1});
  model.tensors.push_back(RecipeTensor("blk.0.attn_qkv.weight", {768, 512}));
  model.tensors.push_back(RecipeTensor("blk.0.attn_kv_b.weight", {768, 512}));
  EXPECT_EQ(FactsOf(model).v_tensors, 3u);
  model = RecipeLlamaApplied("Q3_K_L", model);
  EXPECT_EQ(TypeOf(model, "blk.0.attn_qkv.weight"), "q5_K");
  EXPECT_EQ(TypeOf(model, "blk.0.attn_kv_b.weight"), "q5_K");
}

TEST(LlamaRules, RaiseTheFirstEighthOfTheSmallMixes) {
  const GgufModel q4 = RecipeLlamaApplied("Q4_K_S", RecipeModel());
  EXPECT_THAT(LayersWith(q4, "ffn_down_exps", "q5_K"), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(LayersWith(q4, "attn_v", "q5_K"), ElementsAre(0, 1, 2, 3));
  const GgufModel q3 = RecipeLlamaApplied("Q3_K_M", RecipeModel());
  EXPECT_THAT(LayersWith(q3, "ffn_down_exps", "q5_K"), ElementsAre(0, 1));
  EXPECT_EQ(TypeOf(q3, "blk.2.ffn_down_exps.weight"), "q4_K");
  EXPECT_EQ(TypeOf(q3, "blk.0.attn_output.weight"), "q4_K");
}

TEST(LlamaRules, DependOnAnImportanceMatrixWhereItMatters) {
  GgufModel with = RecipeModel();
  GiveImportance(with);
  const std::vector<uint32_t> first = {0, 1, 2, 3}, none;
  EXPECT_EQ(LayersWith(RecipeLlamaApplied("IQ4_XS", RecipeModel()), "ffn_down_exps", "q5_K"),
            first);
  EXPECT_EQ(LayersWith(RecipeLlamaApplied("IQ4_XS", with), "ffn_down_exps", "q5_K"), none);
  EXPECT_EQ(LayersWith(RecipeLlamaApplied("Q4_0", RecipeModel()), "ffn_down_exps", "q4_1"), none);
  EXPECT_EQ(LayersWith(RecipeLlamaApplied("Q4_0", with), "ffn_down_exps", "q4_1"), first);
  EXPECT_EQ(LayersWith(RecipeLlamaApplied("Q5_0", with), "ffn_down_exps", "q5_1"), first);
}

TEST(LlamaRules, GiveGroupedValuesMoreBits) {
  const RecipeShape grouped = {.heads = 16, .kv_heads = 4};
  EXPECT_EQ(TypeOf(RecipeLlamaApplied("Q2_K", RecipeModel(grouped)), "blk.0.attn_v.weight"),
            "q4_K");
  EXPECT_EQ(TypeOf(RecipeLlamaApplied("Q2_K", RecipeModel()), "blk.0.attn_v.weight"), "q3_K");
  EXPECT_EQ(TypeOf(RecipeLlamaApplied("IQ4_NL", RecipeModel(grouped)), "blk.0.attn_v.weight"),
            "q5_K");
  EXPECT_EQ(TypeOf(RecipeLlamaApplied("IQ4_NL", RecipeModel()), "blk.0.attn_v.weight"), "iq4_nl");
}

TEST(LlamaRules, ReadTheHeadsOfTheFirstLayerFromAnArray) {
  GgufModel model = RecipeModel();
  model.metadata.Set("qwen3moe.attention.head_count_kv",
                     GgufValue::U32s(std::vector<uint32_t>{2, 16}));
  EXPECT_EQ(FactsOf(model).gqa(), 8u);
  model.metadata.Set("qwen3moe.attention.head_count_kv", GgufValue::U32(0));
  EXPECT_EQ(FactsOf(model).gqa(), 0u);
  model.metadata.Remove("qwen3moe.attention.head_count_kv");
  EXPECT_EQ(FactsOf(model).gqa(), 1u);
}

TEST(LlamaRules, TreatEightExpertsAsMixtral) {
  const RecipeShape eight = {.experts = 8};
  const GgufModel q4 = RecipeLlamaApplied("Q4_K_M", RecipeModel(eight));
  EXPECT_EQ(TypeOf(q4, "blk.5.attn_v.weight"), "q8_0");
  EXPECT_EQ(TypeOf(q4, "blk.5.attn_k.weight"), "q8_0");
  EXPECT_EQ(TypeOf(q4, "blk.5.attn_output.weight"), "q5_K");
  EXPECT_EQ(TypeOf(q4, "blk.5.attn_q.weight"), "q4_K");
  const GgufModel q5 = RecipeLlamaApplied("Q5_K_M", RecipeModel(eight));
  EXPECT_EQ(TypeOf(q5, "blk.5.attn_output.weight"), "q5_K");
  EXPECT_EQ(TypeOf(RecipeLlamaApplied("Q3_K_L", RecipeModel(eight)), "blk.5.attn_output.weight"),
            "q3_K");
  EXPECT_EQ(TypeOf(RecipeLlamaApplied("Q2_K", RecipeModel(eight)), "blk.5.attn_output.weight"),
            "q5_K");
}

TEST(LlamaRules, RaiseAttentionOutputsOfOtherModels) {
  EXPECT_EQ(TypeOf(RecipeLlamaApplied("Q2_K", RecipeModel()), "blk.5.attn_output.weight"), "q3_K");
  EXPECT_EQ(TypeOf(RecipeLlamaApplied("Q3_K_L", RecipeModel()), "blk.5.attn_output.weight"),
            "q5_K");
  EXPECT_EQ(TypeOf(RecipeLlamaApplied("Q4_K_M", RecipeModel()), "blk.5.attn_output.weight"),
            "q4_K");
}

TEST(LlamaRules, TreatATiedEmbeddingAsTheOutput) {
  const GgufModel model = RecipeLlamaApplied("Q4_K_M", RecipeModel({.output = false}));
  EXPECT_EQ(TypeOf(model, "token_embd.weight"), "q6_K");
  EXPECT_EQ(TypeOf(RecipeLlamaApplied("Q8_0", RecipeModel({.output = false})), "token_embd.weight"),
            "q8_0");
}

TEST(LlamaRules, GiveAnOutputWithOddRowsEightBits) {
  EXPECT_EQ(TypeOf(RecipeLlamaApplied("Q4_K_M", RecipeModel({.width = 96})), "output.weight"),
            "q8_0");
  EXPECT_EQ(TypeOf(RecipeLlamaApplied("Q4_0", RecipeModel({.width = 96})), "output.weight"),
            "q8_0");
  EXPECT_EQ(TypeOf(RecipeLlamaApplied("Q4_0", RecipeModel()), "output.weight"), "q6_K");
}

TEST(LlamaRules, GiveMxfp4ToStackedMatricesOnly) {
  GgufModel model = RecipeModel();
  model.tensors.push_back(RecipeTensor("blk.0.attn_k_b.weight", {16, 64, 128}));
  model = RecipeLlamaApplied("MXFP4_MOE", model);
  EXPECT_EQ(TypeOf(model, "blk.0.ffn_up_exps.weight"), "mxfp4");
  EXPECT_EQ(TypeOf(model, "blk.0.attn_k_b.weight"), "mxfp4");
  EXPECT_EQ(TypeOf(model, "blk.0.attn_v.weight"), "q8_0");
  EXPECT_EQ(TypeOf(model, "token_embd.weight"), "q8_0");
  EXPECT_EQ(TypeOf(model, "output.weight"), "q8_0");
}

TEST(LlamaRules, RecognizeTheLargeLlama) {
  GgufModel model = RecipeModel({.architecture = "llama", .heads = 64, .kv_heads = 8});
  model.metadata.Set("llama.block_count", GgufValue::U32(80));
  EXPECT_EQ(TypeOf(RecipeLlamaApplied("Q3_K_S", model), "blk.9.attn_v.weight"), "q5_K");
  EXPECT_EQ(TypeOf(RecipeLlamaApplied("Q4_K_S", model), "blk.9.attn_v.weight"), "q5_K");
  EXPECT_EQ(TypeOf(RecipeLlamaApplied("Q5_K_S", model), "blk.9.attn_v.weight"), "q5_K");
  EXPECT_EQ(TypeOf(RecipeLlamaApplied("Q6_K", model), "blk.9.attn_v.weight"), "q6_K");
  model.metadata.Set("llama.block_count", GgufValue::U32(79));
  EXPECT_EQ(TypeOf(RecipeLlamaApplied("Q3_K_S", model), "blk.9.attn_v.weight"), "q3_K");
  model.metadata.Set("llama.block_count", GgufValue::U32(80));
  model.metadata.Set("llama.attention.head_count_kv", GgufValue::U32(64));  // that is the 65B
  EXPECT_EQ(TypeOf(RecipeLlamaApplied("Q3_K_S", model), "blk.9.attn_v.weight"), "q3_K");
}

TEST(LlamaRules, CountTheDownProjectionsOfADenseModel) {
  GgufModel model = RecipeModel({.layers = 8, .experts = 1});
  for (int layer = 0; layer < 8; ++layer) {
    model.tensors.push_back(RecipeTensor(Cat("layer", layer, ".ffn_down.weight"), {512, 256}));
  }
  model = RecipeLlamaApplied("Q4_K_S", model);
  EXPECT_EQ(TypeOf(model, "layer0.ffn_down.weight"), "q5_K");
  EXPECT_EQ(TypeOf(model, "layer1.ffn_down.weight"), "q4_K");
}

TEST(LlamaRules, RefuseAFeedForwardMatrixWithoutALayer) {
  for (const char* name :
       {"ffn_up.weight", "blk.32.ffn_down_exps.weight", "blk.x.ffn_gate.weight"}) {
    GgufModel model = RecipeModel();
    model.tensors.push_back(RecipeTensor(name, {512, 256}));
    RecipeOptions options;
    options.recipe = "Q4_K_M";
    const auto applied = ApplyRecipe(options, model);
    ASSERT_FALSE(applied) << name;
    EXPECT_EQ(applied.error().code, Code::kUnsupported);
    EXPECT_THAT(applied.error().message, HasSubstr(Quoted(name)));
    EXPECT_THAT(applied.error().message, HasSubstr("N below 32"));
  }
}

// The rules of the grid recipes; the number of layers is that of RecipeModel, 32.
GgufModel GridRecipe(const std::string& recipe, RecipeShape shape = {}) {
  GgufModel model = RecipeModel(shape);
  GiveImportance(model);
  return RecipeLlamaApplied(recipe, model);
}

std::vector<std::string> TypesOf(const GgufModel& model, const std::vector<std::string>& names) {
  std::vector<std::string> types;
  for (const std::string& name : names) types.push_back(TypeOf(model, name + ".weight"));
  return types;
}

const std::vector<std::string> kMatrices = {"output",
                                            "token_embd",
                                            "blk.9.attn_q",
                                            "blk.9.attn_k",
                                            "blk.9.attn_v",
                                            "blk.9.attn_output",
                                            "blk.9.ffn_gate_exps",
                                            "blk.9.ffn_up_exps",
                                            "blk.9.ffn_down_exps"};

TEST(LlamaRules, GiveTheGridRecipesTheTypesOfLlamaQuantize) {
  const auto types = [](const std::string& recipe) {
    return TypesOf(GridRecipe(recipe), kMatrices);
  };
  EXPECT_THAT(types("IQ3_S"), ElementsAre("q6_K", "iq3_s", "iq3_s", "iq3_s", "iq3_s", "iq3_s",
                                          "iq3_s", "iq3_s", "iq3_s"));
  EXPECT_THAT(types("IQ3_M"), ElementsAre("q6_K", "iq3_s", "iq3_s", "iq3_s", "q4_K", "q4_K",
                                          "iq3_s", "iq3_s", "iq3_s"));
  EXPECT_THAT(types("IQ3_XS"), ElementsAre("q6_K", "iq3_s", "iq3_xxs", "iq3_xxs", "iq3_s", "iq3_s",
                                           "iq3_xxs", "iq3_xxs", "iq3_s"));
  EXPECT_THAT(types("IQ3_XXS"), ElementsAre("q5_K", "iq3_s", "iq2_s", "iq2_s", "iq3_xxs", "iq3_s",
                                            "iq3_xxs", "iq3_xxs", "iq3_xxs"));
  EXPECT_THAT(types("IQ2_M"), ElementsAre("q5_K", "iq3_s", "iq2_s", "iq2_s", "q4_K", "iq3_s",
                                          "iq2_s", "iq2_s", "iq2_s"));
  EXPECT_THAT(types("IQ2_S"), ElementsAre("q5_K", "iq3_s", "iq2_xs", "iq2_xs", "q4_K", "iq3_s",
                                          "iq2_xs", "iq2_xs", "iq2_xs"));
  EXPECT_THAT(types("IQ2_XS"), ElementsAre("q5_K", "q2_K", "iq2_xs", "iq2_xs", "q4_K", "iq2_xs",
                                           "iq2_xs", "iq2_xs", "iq2_xs"));
  EXPECT_THAT(types("IQ2_XXS"), ElementsAre("q5_K", "q2_K", "iq2_xxs", "iq2_xxs", "q4_K", "iq2_xxs",
                                            "iq2_xxs", "iq2_xxs", "iq2_xxs"));
}

TEST(LlamaRules, GiveQ2KSmallTheTypesOfLlamaQuantize) {
  EXPECT_THAT(TypesOf(GridRecipe("Q2_K_S"), kMatrices),
              ElementsAre("q6_K", "q2_K", "q2_K", "q2_K", "q2_K", "q2_K", "q2_K", "q2_K", "q2_K"));
  EXPECT_THAT(LayersWith(GridRecipe("Q2_K_S"), "ffn_down_exps", "q4_K"), ElementsAre(0, 1, 2, 3));
  const RecipeShape four = {.heads = 16, .kv_heads = 4};
  EXPECT_EQ(TypeOf(GridRecipe("Q2_K_S", four), "blk.9.attn_v.weight"), "q4_K");
}

TEST(LlamaRules, GiveTheRecipesBelowTwoBitsTheTypesOfLlamaQuantize) {
  const auto types = [](const std::string& recipe) {
    return TypesOf(GridRecipe(recipe), kMatrices);
  };
  EXPECT_THAT(types("IQ1_M"), ElementsAre("q5_K", "q2_K", "iq1_m", "iq1_m", "q4_K", "iq2_xxs",
                                          "iq1_m", "iq1_m", "iq1_m"));
  EXPECT_THAT(types("IQ1_S"), ElementsAre("q5_K", "q2_K", "iq1_s", "iq1_s", "q4_K", "iq2_xxs",
                                          "iq1_s", "iq1_s", "iq1_s"));
  for (const std::string type : {"tq1_0", "tq2_0"}) {
    EXPECT_THAT(types(type), ElementsAre("q6_K", "q4_K", type, type, type, type, type, type, type));
  }
  EXPECT_THAT(LayersWith(GridRecipe("IQ1_S"), "ffn_down_exps", "q2_K"), ElementsAre(0, 1, 2, 3));
}

TEST(LlamaRules, RecognizeMixtralInTheRecipesBelowTwoBits) {
  const RecipeShape mixtral = {.experts = 8};
  const std::vector<std::string> attention = {"blk.9.attn_v", "blk.9.attn_k", "blk.9.attn_output"};
  EXPECT_THAT(TypesOf(GridRecipe("IQ1_M", mixtral), attention),
              ElementsAre("q4_K", "q4_K", "q5_K"));
  EXPECT_THAT(TypesOf(GridRecipe("TQ1_0", mixtral), attention),
              ElementsAre("q8_0", "q8_0", "tq1_0"));
}

TEST(LlamaRules, GiveTheGridRecipesMoreBitsInTheFirstEighth) {
  EXPECT_THAT(LayersWith(GridRecipe("IQ2_XXS"), "ffn_down_exps", "q2_K"), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(LayersWith(GridRecipe("IQ2_M"), "ffn_down_exps", "iq3_s"), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(LayersWith(GridRecipe("IQ3_M"), "ffn_down_exps", "q4_K"), ElementsAre(0, 1, 2, 3));
  // The eighths at both ends keep the base type.
  EXPECT_THAT(LayersWith(GridRecipe("IQ3_XS"), "ffn_up_exps", "iq3_s"),
              ElementsAre(0, 1, 2, 3, 28, 29, 30, 31));
}

TEST(LlamaRules, RecognizeMixtralInTheGridRecipes) {
  const RecipeShape mixtral = {.experts = 8};
  EXPECT_THAT(
      TypesOf(GridRecipe("IQ2_XS", mixtral), {"blk.9.attn_v", "blk.9.attn_k", "blk.9.attn_output"}),
      ElementsAre("q4_K", "q4_K", "q5_K"));
  EXPECT_THAT(TypesOf(GridRecipe("IQ3_XXS", mixtral),
                      {"blk.9.attn_v", "blk.9.attn_k", "blk.9.attn_q", "blk.9.attn_output"}),
              ElementsAre("q8_0", "q8_0", "iq2_s", "q5_K"));
  EXPECT_THAT(LayersWith(GridRecipe("IQ3_M", mixtral), "ffn_down_exps", "q4_K"),
              ElementsAre(0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31));
}

TEST(LlamaRules, DependOnTheQueriesPerKeyInTheGridRecipes) {
  const auto value = [](const std::string& recipe, RecipeShape shape) {
    return TypeOf(GridRecipe(recipe, shape), "blk.9.attn_v.weight");
  };
  const RecipeShape four = {.heads = 16, .kv_heads = 4};
  for (const char* recipe : {"IQ3_S", "IQ3_XS", "IQ3_XXS", "IQ2_M"}) {
    EXPECT_EQ(value(recipe, four), "q4_K") << recipe;
  }
  const RecipeShape few = {.experts = 2};
  EXPECT_EQ(value("IQ2_M", few), "iq3_s");
  EXPECT_EQ(value("IQ2_XXS", few), "q2_K");
}

}  // namespace
}  // namespace moepack
