#include "libshard/recipe/type_list.h"

#include <gtest/gtest.h>

#include "tests/libshard/recipe/recipe_model.h"

namespace moepack {
namespace {

TypedGguf Typed(const RecipeOptions& recipe, bool imatrix) {
  TypedGguf typed;
  typed.model = RecipeModel();
  if (imatrix) {
    typed.imatrix.emplace();
    const auto importance = std::make_shared<Importance>();
    for (GgufTensor& tensor : typed.model.tensors) {
      if (tensor.name.find("attn_q.") != std::string::npos) tensor.importance = importance;
    }
  }
  auto applied = ApplyRecipe(recipe, typed.model);
  EXPECT_TRUE(applied) << applied.error().message;
  if (applied) typed.recipe = *std::move(applied);
  return typed;
}

TensorType Find(const std::vector<TensorType>& types, const std::string& name) {
  for (const TensorType& type : types) {
    if (type.name == name) return type;
  }
  ADD_FAILURE() << name;
  return {};
}

RecipeOptions TypeListOptions(const std::string& recipe, const std::string& overlay_type = "") {
  RecipeOptions options;
  options.recipe = recipe;
  options.overlay_type = overlay_type;
  return options;
}

TEST(TypeList, ShowsWhereTheImportanceMatrixHasNoData) {
  const auto types = ListTypes(Typed(TypeListOptions("Q4_K_M"), true));
  EXPECT_EQ(Find(types, "blk.0.attn_q.weight").importance, "used");
  EXPECT_EQ(Find(types, "blk.0.attn_k.weight").importance, "none");
  EXPECT_EQ(Find(types, "blk.0.attn_norm.weight").importance, "no need");
  EXPECT_EQ(
      Find(ListTypes(Typed(TypeListOptions("Q4_K_M"), false)), "blk.0.attn_k.weight").importance,
      "");
}

TEST(TypeList, NamesTheOverlayTypeIfItDiffers) {
  const auto types = ListTypes(Typed(TypeListOptions("Q4_K_M", "q8_0"), false));
  EXPECT_EQ(Find(types, "blk.0.ffn_up_exps.weight").overlay_type, "q8_0");
  EXPECT_EQ(Find(types, "blk.0.attn_q.weight").overlay_type, "");
}

TEST(TypeList, ListsFallbacksOfTheOverlayAndTheGroupsSeparately) {
  TypedGguf typed;
  typed.model = RecipeModel({.expert_width = 96});
  auto applied = ApplyRecipe(TypeListOptions("Q8_0", "q4_K"), typed.model);
  ASSERT_TRUE(applied) << applied.error().message;
  typed.recipe = *std::move(applied);
  const TensorType down = Find(ListTypes(typed), "blk.0.ffn_down_exps.weight");
  EXPECT_EQ(down.type, "q8_0");
  EXPECT_EQ(down.fallback, "");
  EXPECT_EQ(down.overlay_type, "q5_0");
}

}  // namespace
}  // namespace moepack
