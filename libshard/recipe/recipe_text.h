// How types were chosen, in one line: what distribution.json records, and what verify reads back to
// choose them again.
#pragma once

#include <string>
#include <string_view>

#include "libshard/base/result.h"
#include "libshard/recipe/recipe.h"

namespace moepack {

// Everything in the options that decides types and bytes: "Q4_K_M --experts-type q5_K". Rules of
// several lines, or with comments, are written one after the other on this line.
std::string RecipeText(const RecipeOptions& options);

// The options of such a text, so that RecipeText gives the text again; `where` names it in errors
// (kCorrupt for a text that RecipeText does not write). allow_requantize is in the text only where
// it decides: with a recipe of a floating-point type, of which MXFP4 weights stay what they are
// without it. Elsewhere it is set.
Result<RecipeOptions> ParseRecipeText(const std::string& where, std::string_view text);

}  // namespace moepack
