#include "libshard/recipe/recipe_list.h"

#include <algorithm>
#include <array>

#include "libshard/base/text/suggest.h"
#include "libshard/base/text/text.h"
#include "libshard/recipe/recipe_types.h"

namespace moepack {
namespace {

constexpr ProfileTypes kExact = {};
// Routed experts are nearly all of the bytes and the least sensitive; among their matrices `down`
// needs the most care. docs/quantization.md gives the bits per weight.
constexpr ProfileTypes kHigh = {"q8_0", "q8_0", "q5_K", "q6_K"};
constexpr ProfileTypes kBalanced = {"q8_0", "q8_0", "q4_K", "q5_K"};
constexpr ProfileTypes kCompact = {"q8_0", "q6_K", "q3_K", "iq4_xs"};

// The numbers are llama_ftype of llama.cpp's include/llama.h, and the rules are those of its
// src/llama-quant.cpp, v0.5.0. recipe_types.cc says which types need an importance matrix.
constexpr std::array kRecipes = {
    Recipe{.name = "Q2_K",
           .base = "q2_K",
           .file_type = 10,
           .summary = "2-bit k-quants, values and down projections higher",
           .value = {when::kFourQueriesPerKey, "q4_K", "q3_K"},
           .attention_output = {when::kEightExperts, "q5_K", "q3_K"},
           .down = {when::kEverywhere, "q3_K"}},
    Recipe{.name = "Q2_K_S",
           .base = "q2_K",
           .file_type = 21,
           .summary = "2-bit k-quants, small",
           .value = {when::kFourQueriesPerKey, "q4_K"},
           .down = {when::kFirstEighth, "q4_K"}},
    Recipe{.name = "Q3_K_S",
           .base = "q3_K",
           .file_type = 11,
           .summary = "3-bit k-quants, small",
           .attention_output = {when::kEightExperts, "q5_K"}},
    Recipe{.name = "Q3_K_M",
           .alias = "Q3_K",
           .base = "q3_K",
           .file_type = 12,
           .summary = "3-bit k-quants, medium",
           .value = {when::kFirstTwo, "q5_K", "q4_K"},
           .attention_output = {when::kEightExperts, "q5_K", "q4_K"},
           .down = {when::kFirstSixteenth, "q5_K", "q4_K"}},
    Recipe{.name = "Q3_K_L",
           .base = "q3_K",
           .file_type = 13,
           .summary = "3-bit k-quants, large",
           .value = {when::kEverywhere, "q5_K"},
           .attention_output = {when::kEightExperts, "", "q5_K"},
           .down = {when::kEverywhere, "q5_K"}},
    Recipe{.name = "Q4_K_S",
           .base = "q4_K",
           .file_type = 14,
           .summary = "4-bit k-quants, small",
           .value = {when::kFirstFour, "q5_K"},
           .attention_output = {when::kEightExperts, "q5_K"},
           .down = {when::kFirstEighth, "q5_K"}},
    Recipe{.name = "Q4_K_M",
           .alias = "Q4_K",
           .base = "q4_K",
           .file_type = 15,
           .summary = "4-bit k-quants, medium: the usual choice",
           .value = {when::kEndsAndEveryThird, "q6_K"},
           .attention_output = {when::kEightExperts, "q5_K"},
           .down = {when::kEndsAndEveryThird, "q6_K"}},
    Recipe{.name = "Q5_K_S", .base = "q5_K", .file_type = 16, .summary = "5-bit k-quants, small"},
    Recipe{.name = "Q5_K_M",
           .alias = "Q5_K",
           .base = "q5_K",
           .file_type = 17,
           .summary = "5-bit k-quants, medium",
           .value = {when::kEndsAndEveryThird, "q6_K"},
           .down = {when::kEndsAndEveryThird, "q6_K"}},
    Recipe{.name = "Q6_K", .base = "q6_K", .file_type = 18, .summary = "6-bit k-quants"},
    Recipe{.name = "Q8_0",
           .base = "q8_0",
           .file_type = 7,
           .summary = "8 bits, one scale per 32 values"},
    Recipe{.name = "Q4_0",
           .base = "q4_0",
           .file_type = 2,
           .summary = "4 bits, one scale per 32 values",
           .down = {when::kFirstEighthImportance, "q4_1"}},
    Recipe{.name = "Q4_1",
           .base = "q4_1",
           .file_type = 3,
           .summary = "4 bits, a scale and a minimum per 32 values"},
    Recipe{.name = "Q5_0",
           .base = "q5_0",
           .file_type = 8,
           .summary = "5 bits, one scale per 32 values",
           .down = {when::kFirstEighthImportance, "q5_1"}},
    Recipe{.name = "Q5_1",
           .base = "q5_1",
           .file_type = 9,
           .summary = "5 bits, a scale and a minimum per 32 values"},
    Recipe{.name = "IQ4_XS",
           .base = "iq4_xs",
           .file_type = 30,
           .summary = "4.25 bits, a fixed table of values",
           .value = {when::kFourQueriesPerKey, "q5_K"},
           .attention_output = {when::kEightExperts, "q5_K"},
           .down = {when::kFirstEighthNoImportance, "q5_K"}},
    Recipe{.name = "IQ4_NL",
           .base = "iq4_nl",
           .file_type = 25,
           .summary = "4.5 bits, a fixed table of values",
           .value = {when::kFourQueriesPerKey, "q5_K"},
           .attention_output = {when::kEightExperts, "q5_K"},
           .down = {when::kFirstEighthNoImportance, "q5_K"}},
    Recipe{.name = "IQ3_S",
           .base = "iq3_s",
           .file_type = 26,
           .summary = "3.44 bits, points of a grid",
           .value = {when::kFourQueriesPerKey, "q4_K"},
           .attention_output = {when::kEightExperts, "q5_K"}},
    Recipe{.name = "IQ3_M",
           .base = "iq3_s",
           .file_type = 27,
           .summary = "3.44 bits, points of a grid, attention higher",
           .value = {when::kEverywhere, "q4_K"},
           .attention_output = {when::kEightExperts, "q5_K", "q4_K"},
           .down = {when::kFirstEighthOrMixtral, "q4_K"}},
    Recipe{.name = "IQ3_XS",
           .base = "iq3_s",
           .file_type = 22,
           .summary = "3.3 bits, points of a grid",
           .value = {when::kFourQueriesPerKey, "q4_K"},
           .attention_output = {when::kEightExperts, "q5_K"},
           .key = {when::kEverywhere, "iq3_xxs"},
           .query = {when::kEverywhere, "iq3_xxs"},
           .gate_up = {when::kMiddle, "iq3_xxs"}},
    Recipe{.name = "IQ3_XXS",
           .base = "iq3_xxs",
           .file_type = 23,
           .summary = "3.06 bits, points of a grid",
           .value = {when::kFourQueriesPerKey, "q4_K"},
           .attention_output = {when::kEightExperts, "q5_K", "iq3_s"},
           .key = {when::kEverywhere, "iq2_s"},
           .query = {when::kEverywhere, "iq2_s"},
           .value_plain = RecipeRule{when::kFourQueriesPerKey, "q4_K", "iq3_s"},
           .down_plain = RecipeRule{when::kFirstEighth, "q4_K", "q3_K"},
           .output = "q5_K",
           .embedding = "iq3_s"},
    Recipe{.name = "IQ2_XXS",
           .base = "iq2_xxs",
           .file_type = 19,
           .summary = "2.06 bits, points of a grid",
           .value = {when::kFourQueriesOrExperts, "q4_K", "q2_K"},
           .attention_output = {when::kEightExperts, "q5_K"},
           .down = {when::kFirstEighth, "q2_K"},
           .output = "q5_K",
           .embedding = "q2_K",
           .below_three_bits = true},
    Recipe{.name = "IQ2_XS",
           .base = "iq2_xs",
           .file_type = 20,
           .summary = "2.31 bits, points of a grid",
           .value = {when::kFourQueriesOrExperts, "q4_K", "q2_K"},
           .attention_output = {when::kEightExperts, "q5_K"},
           .down = {when::kFirstEighth, "q2_K"},
           .output = "q5_K",
           .embedding = "q2_K",
           .below_three_bits = true},
    Recipe{.name = "IQ2_S",
           .base = "iq2_xs",
           .file_type = 28,
           .summary = "2.31 bits, attention higher",
           .value = {when::kFourQueriesOrExperts, "q4_K", "iq3_s"},
           .attention_output = {when::kEightExperts, "q5_K", "iq3_s"},
           .down = {when::kFirstEighth, "iq3_s"},
           .output = "q5_K",
           .embedding = "iq3_s",
           .below_three_bits = true},
    Recipe{.name = "IQ2_M",
           .base = "iq2_s",
           .file_type = 29,
           .summary = "2.56 bits, points of a grid, attention higher",
           .value = {when::kFourQueriesOrExperts, "q4_K", "iq3_s"},
           .attention_output = {when::kEightExperts, "q5_K", "iq3_s"},
           .down = {when::kFirstEighth, "iq3_s"},
           .output = "q5_K",
           .embedding = "iq3_s",
           .below_three_bits = true},
    Recipe{.name = "IQ1_M",
           .base = "iq1_m",
           .file_type = 31,
           .summary = "1.75 bits, points of a grid",
           .value = {when::kFourQueriesOrExperts, "q4_K", "q2_K"},
           .attention_output = {when::kEightExperts, "q5_K", "iq2_xxs"},
           .down = {when::kFirstEighth, "q2_K"},
           .output = "q5_K",
           .embedding = "q2_K",
           .below_three_bits = true},
    Recipe{.name = "IQ1_S",
           .base = "iq1_s",
           .file_type = 24,
           .summary = "1.56 bits, points of a grid",
           .value = {when::kFourQueriesOrExperts, "q4_K", "q2_K"},
           .attention_output = {when::kEightExperts, "q5_K", "iq2_xxs"},
           .down = {when::kFirstEighth, "q2_K"},
           .output = "q5_K",
           .embedding = "q2_K",
           .below_three_bits = true},
    Recipe{.name = "TQ2_0",
           .base = "tq2_0",
           .file_type = 37,
           .summary = "2.06 bits, for models trained with ternary weights",
           .embedding = "q4_K"},
    Recipe{.name = "TQ1_0",
           .base = "tq1_0",
           .file_type = 36,
           .summary = "1.69 bits, for models trained with ternary weights",
           .embedding = "q4_K"},
    Recipe{.name = "MXFP4_MOE",
           .base = "mxfp4",
           .file_type = 38,
           .summary = "MXFP4 experts, the rest Q8_0",
           .not_stacked = "q8_0"},
    Recipe{.name = "BF16", .base = "bf16", .file_type = 32, .summary = "BF16, no quantization"},
    Recipe{.name = "F16", .base = "f16", .file_type = 1, .summary = "F16, no quantization"},
    Recipe{.name = "F32", .base = "f32", .file_type = 0, .summary = "F32, no quantization"},
    Recipe{.name = "exact",
           .summary = "profile: every tensor as the source has it",
           .profile = &kExact},
    Recipe{.name = "high",
           .summary = "profile: trunk Q8_0, experts Q5_K, their down projections Q6_K",
           .profile = &kHigh},
    Recipe{.name = "balanced",
           .summary = "profile: trunk Q8_0, experts Q4_K, their down projections Q5_K",
           .profile = &kBalanced},
    Recipe{.name = "compact",
           .summary = "profile: trunk Q8_0, experts Q3_K, their down projections IQ4_XS",
           .profile = &kCompact},
};

// Recipes that llama-quantize has and this version does not.
constexpr std::array<std::string_view, 2> kLaterRecipes = {"Q1_0", "Q2_0"};

// A type that llama_ftype has but no recipe of llama-quantize produces.
constexpr std::string_view kTypeWithoutRecipe = "nvfp4";
constexpr uint32_t kFileTypeOfNvfp4 = 39;

std::vector<std::string> RecipeNames() {
  std::vector<std::string> names;
  for (const Recipe& recipe : kRecipes) names.emplace_back(recipe.name);
  return names;
}

Error UnknownRecipe(std::string_view name) {
  const bool later =
      std::any_of(kLaterRecipes.begin(), kLaterRecipes.end(),
                  [&](std::string_view known) { return Lower(known) == Lower(name); });
  if (later) {
    return Error{Code::kUnsupported,
                 Cat("recipe ", Quoted(name), ": not in this version: expected ",
                     Join(RecipeNames(), ", "), " or a type for --pure")};
  }
  Error error = NotOneOf("recipe", RecipeNames(), name);
  error.message += OwnerOfType(name);
  return error;
}

}  // namespace

std::span<const Recipe> AllRecipes() { return kRecipes; }

const Recipe* FindRecipe(std::string_view name) {
  const std::string wanted = Lower(name);
  if (wanted.empty()) return nullptr;
  const auto found = std::find_if(kRecipes.begin(), kRecipes.end(), [&](const Recipe& recipe) {
    return Lower(recipe.name) == wanted || Lower(recipe.alias) == wanted;
  });
  return found == kRecipes.end() ? nullptr : &*found;
}

Result<const Recipe*> RequireRecipe(std::string_view name) {
  const Recipe* recipe = FindRecipe(name);
  if (recipe == nullptr) return UnknownRecipe(name);
  return recipe;
}

// Uses the recipe whose base is the type; if it comes in S, M and L, the one that the short name
// means.
uint32_t FileTypeOf(const quant::Format& type) {
  if (type.name == kTypeWithoutRecipe) return kFileTypeOfNvfp4;
  const Recipe* typical = nullptr;
  for (const Recipe& recipe : kRecipes) {
    if (recipe.base != type.name) continue;
    if (typical == nullptr || !recipe.alias.empty()) typical = &recipe;
  }
  return typical == nullptr ? 0 : typical->file_type.value_or(0);
}

}  // namespace moepack
