#include "libshard/recipe/recipe_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "libshard/base/text/text.h"
#include "libshard/recipe/recipe_types.h"

namespace moepack {
namespace {

using testing::HasSubstr;

TEST(RecipeList, HasUniqueNamesAndWritableTypes) {
  std::set<std::string> names;
  for (const Recipe& recipe : AllRecipes()) {
    EXPECT_TRUE(names.insert(Lower(recipe.name)).second) << recipe.name;
    EXPECT_FALSE(recipe.summary.empty()) << recipe.name;
    EXPECT_EQ(FindRecipe(recipe.name), &recipe);
    if (!recipe.file_type) continue;
    EXPECT_TRUE(ParseTargetType("recipe", recipe.base)) << recipe.name;
  }
  for (const char* name :
       {"q2_k",    "q3_k_s", "q3_k_m",   "q3_k_l", "q4_k_s",    "q4_k_m", "q5_k_s", "q5_k_m",
        "q6_k",    "q8_0",   "q4_0",     "q4_1",   "q5_0",      "q5_1",   "iq4_xs", "iq4_nl",
        "iq2_xxs", "iq2_xs", "iq2_s",    "iq2_m",  "iq3_xxs",   "iq3_xs", "iq3_s",  "iq3_m",
        "iq1_s",   "iq1_m",  "tq1_0",    "tq2_0",  "mxfp4_moe", "bf16",   "f16",    "f32",
        "exact",   "high",   "balanced", "compact"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(RecipeList, ReadsShortNamesAsLlamaQuantizeDoes) {
  EXPECT_EQ(FindRecipe("q4_k")->name, "Q4_K_M");
  EXPECT_EQ(FindRecipe("Q3_K")->name, "Q3_K_M");
  EXPECT_EQ(FindRecipe("Q5_K")->name, "Q5_K_M");
  EXPECT_EQ(FindRecipe("Balanced")->name, "balanced");
  EXPECT_EQ(FindRecipe("Q4"), nullptr);
}

TEST(RecipeList, SaysThatOtherRecipesOfLlamaQuantizeAreUnsupported) {
  for (const char* name : {"q1_0", "Q2_0"}) {
    const auto recipe = RequireRecipe(name);
    ASSERT_FALSE(recipe) << name;
    EXPECT_EQ(recipe.error().code, Code::kUnsupported);
    EXPECT_THAT(recipe.error().message, HasSubstr("not in this version"));
    EXPECT_THAT(recipe.error().message, HasSubstr("Q2_K, Q2_K_S, "));
  }
}

TEST(RecipeList, RefusesOtherNamesWithTheList) {
  for (const char* name : {"Q9_K", "", "q4_k_m "}) {
    const auto recipe = RequireRecipe(name);
    ASSERT_FALSE(recipe) << name;
    EXPECT_EQ(recipe.error().code, Code::kInvalidArgument);
    EXPECT_THAT(recipe.error().message, HasSubstr("expected one of Q2_K, Q2_K_S, "));
    EXPECT_THAT(recipe.error().message, HasSubstr("found " + Quoted(name)));
  }
}

}  // namespace
}  // namespace moepack
