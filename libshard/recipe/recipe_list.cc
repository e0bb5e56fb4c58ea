// The recipes by name.
#include <algorithm>
#include <array>

#include "libshard/base/text.h"
#include "libshard/recipe/recipe.h"
#include "libshard/recipe/recipe_types.h"

namespace shard {
namespace {

// Ids: llama_ftype of llama.cpp's include/llama.h.
constexpr std::array kRecipes = {
    Recipe{"Q2_K", "q2_K", 10, "2-bit k-quants, values and down projections higher"},
    Recipe{"Q3_K_S", "q3_K", 11, "3-bit k-quants, small"},
    Recipe{"Q3_K_M", "q3_K", 12, "3-bit k-quants, medium"},
    Recipe{"Q3_K_L", "q3_K", 13, "3-bit k-quants, large"},
    Recipe{"Q4_K_S", "q4_K", 14, "4-bit k-quants, small"},
    Recipe{"Q4_K_M", "q4_K", 15, "4-bit k-quants, medium: the usual choice"},
    Recipe{"Q5_K_S", "q5_K", 16, "5-bit k-quants, small"},
    Recipe{"Q5_K_M", "q5_K", 17, "5-bit k-quants, medium"},
    Recipe{"Q6_K", "q6_K", 18, "6-bit k-quants"},
    Recipe{"Q8_0", "q8_0", 7, "8 bits, one scale per 32 values"},
    Recipe{"Q4_0", "q4_0", 2, "4 bits, one scale per 32 values"},
    Recipe{"Q4_1", "q4_1", 3, "4 bits, a scale and a minimum per 32 values"},
    Recipe{"Q5_0", "q5_0", 8, "5 bits, one scale per 32 values"},
    Recipe{"Q5_1", "q5_1", 9, "5 bits, a scale and a minimum per 32 values"},
    Recipe{"IQ4_XS", "iq4_xs", 30, "4.25 bits, a fixed table of values"},
    Recipe{"IQ4_NL", "iq4_nl", 25, "4.5 bits, a fixed table of values"},
    Recipe{"MXFP4_MOE", "mxfp4", 38, "MXFP4 experts, the rest Q8_0"},
    Recipe{"BF16", "bf16", 32, "BF16, no quantization"},
    Recipe{"F16", "f16", 1, "F16, no quantization"},
    Recipe{"F32", "f32", 0, "F32, no quantization"},
    Recipe{"exact", "", -1, "profile: every tensor as the source has it"},
    Recipe{"high", "", -1, "profile: trunk Q8_0, experts Q5_K, their down projections Q6_K"},
    Recipe{"balanced", "", -1, "profile: trunk Q8_0, experts Q4_K, their down projections Q5_K"},
    Recipe{"compact", "", -1, "profile: trunk Q8_0, experts Q3_K, their down projections IQ4_XS"},
};

struct Alias {
  std::string_view name, recipe;
};
constexpr std::array kAliases = {Alias{"Q3_K", "Q3_K_M"}, Alias{"Q4_K", "Q4_K_M"},
                                 Alias{"Q5_K", "Q5_K_M"}};

// What llama-quantize knows besides.
constexpr std::array<std::string_view, 15> kLaterRecipes = {
    "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M", "IQ3_XXS", "IQ3_XS",
    "IQ3_S", "IQ3_M", "Q2_K_S",  "TQ1_0",  "TQ2_0", "Q1_0",  "Q2_0"};

std::string RecipeNames() {
  std::vector<std::string> names;
  for (const Recipe& recipe : kRecipes) names.emplace_back(recipe.name);
  return Join(names, ", ");
}

Error UnknownRecipe(std::string_view name) {
  const bool later =
      std::any_of(kLaterRecipes.begin(), kLaterRecipes.end(),
                  [&](std::string_view known) { return Lower(known) == Lower(name); });
  if (later) {
    return Error{Code::kUnsupported,
                 Cat("recipe ", Quoted(name), ": not in this version: expected ", RecipeNames(),
                     " or a type for --pure")};
  }
  return Error{Code::kInvalidArgument,
               Cat("recipe: expected one of ", RecipeNames(), ", found ", Quoted(name))};
}

}  // namespace

std::span<const Recipe> AllRecipes() { return kRecipes; }

const Recipe* FindRecipe(std::string_view name) {
  std::string wanted = Lower(name);
  for (const Alias& alias : kAliases) {
    if (Lower(alias.name) == wanted) wanted = Lower(alias.recipe);
  }
  const auto found = std::find_if(kRecipes.begin(), kRecipes.end(), [&](const Recipe& recipe) {
    return Lower(recipe.name) == wanted;
  });
  return found == kRecipes.end() ? nullptr : &*found;
}

Result<const Recipe*> RequireRecipe(std::string_view name) {
  const Recipe* recipe = FindRecipe(name);
  if (recipe == nullptr) return UnknownRecipe(name);
  return recipe;
}

}  // namespace shard
