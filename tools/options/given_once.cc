#include "tools/options/given_once.h"

#include "libshard/recipe/recipe_list.h"

namespace moepack::cli {

Status CheckRecipesGivenOnce(const char* option, const std::vector<std::string>& recipes) {
  std::vector<std::string> names;
  for (const std::string& text : recipes) {
    const Recipe* recipe = FindRecipe(text);
    names.push_back(recipe == nullptr ? Lower(text) : std::string(recipe->name));
  }
  return CheckGivenOnce(option, names);
}

}  // namespace moepack::cli
