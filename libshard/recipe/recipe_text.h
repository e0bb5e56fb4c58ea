// How types were chosen, as one line of text. distribution.json records it, and verify reads it
// back to choose them again.
#pragma once

#include <string>
#include <string_view>

#include "libshard/base/result.h"
#include "libshard/recipe/recipe.h"

namespace moepack {

// Writes everything in the options that determines types and bytes: "Q4_K_M --experts-type q5_K".
// Rules on several lines are joined on this line, and comments are dropped.
std::string RecipeText(const RecipeOptions& options);

// Parses such a text into options for which RecipeText gives the same text. `where` names it in
// errors; a text that RecipeText does not write is kCorrupt. allow_requantize is written only if it
// matters: with a recipe of a floating-point type, MXFP4 weights keep their type without it. In all
// other cases the parsed options have it set.
Result<RecipeOptions> ParseRecipeText(const std::string& where, std::string_view text);

}  // namespace moepack
