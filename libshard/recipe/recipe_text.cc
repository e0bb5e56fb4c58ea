#include "libshard/recipe/recipe_text.h"

#include <algorithm>
#include <array>
#include <vector>

#include "libshard/base/text/text.h"
#include "libshard/recipe/recipe_list.h"
#include "libshard/recipe/recipe_override.h"
#include "libshard/recipe/recipe_types.h"
#include "quant/format.h"

namespace moepack {
namespace {

constexpr std::string_view kNoRepack = "--no-repack";
constexpr std::string_view kAllowRequantize = "--allow-requantize";
constexpr std::string_view kTensorType = "--tensor-type";
constexpr std::string_view kNotOnOneLine = "#\n\r";

struct Word {
  std::string_view flag;
  std::string RecipeOptions::*value;
};
// The options in the order of the text, where they come before the rules.
constexpr std::array kWords = {Word{"--pure", &RecipeOptions::pure},
                               Word{"--trunk-type", &RecipeOptions::trunk_type},
                               Word{"--experts-type", &RecipeOptions::experts_type},
                               Word{"--overlay-type", &RecipeOptions::overlay_type},
                               Word{"--output-tensor-type", &RecipeOptions::output_type},
                               Word{"--token-embedding-type", &RecipeOptions::embedding_type}};

void AddWord(std::string_view flag, std::string_view value, std::string& text) {
  if (!value.empty()) text += Cat(text.empty() ? "" : " ", flag, flag.empty() ? "" : " ", value);
}

// Joins rules on one line: a file of rules may have comments and line ends, which a single line
// cannot hold.
std::string OnOneLine(const std::string& rules) {
  if (rules.find_first_of(kNotOnOneLine) == std::string::npos) return rules;
  const std::vector<std::string> split = SplitTensorTypes(rules);
  const std::string joined = Join(split, ",");
  // A comma behind a bracket that stays open belongs to the expression; white space never does.
  return SplitTensorTypes(joined) == split ? joined : Join(split, " ");
}

Error NoRecipe(const std::string& where, std::string_view text) {
  return {Code::kCorrupt,
          Cat(where, ": expected a recipe as moepack writes it, found ", Quoted(text))};
}

// Takes " <flag> " and its value off the front of `rest`, up to the next flag of `ends`.
template <class Ends>
std::string TakeValue(std::string_view& rest, const Ends& ends) {
  size_t end = rest.size();
  for (const std::string_view next : ends) end = std::min(end, rest.find(Cat(" ", next), 1));
  std::string value(rest.substr(0, end));
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return value;
}

std::vector<std::string_view> Flags() {
  std::vector<std::string_view> flags;
  for (const Word& word : kWords) flags.push_back(word.flag);
  flags.push_back(kTensorType);
  return flags;
}

bool TakeFlag(std::string_view flag, std::string_view& rest) {
  if (!rest.starts_with(flag) || !rest.substr(flag.size()).starts_with(' ')) return false;
  rest.remove_prefix(flag.size() + 1);
  return true;
}

// With a recipe of a floating-point type, the permission decides whether MXFP4 weights keep their
// type. With other recipes it does not change any type.
bool PermissionDecides(const RecipeOptions& options) {
  const Recipe* recipe = FindRecipe(options.recipe);
  const quant::Format* base = recipe == nullptr ? nullptr : quant::FindFormat(recipe->base);
  return base != nullptr && !IsQuantized(*base);
}

}  // namespace

std::string RecipeText(const RecipeOptions& options) {
  const Recipe* recipe = FindRecipe(options.recipe);
  std::string text = recipe != nullptr ? std::string(recipe->name) : options.recipe;
  if (text.empty() && options.pure.empty()) text = "exact";
  for (const Word& word : kWords) AddWord(word.flag, options.*word.value, text);
  for (const std::string& rules : options.tensor_types) {
    AddWord(kTensorType, OnOneLine(rules), text);
  }
  if (!options.repack) AddWord("", kNoRepack, text);
  if (options.allow_requantize && PermissionDecides(options)) {
    AddWord("", kAllowRequantize, text);
  }
  return text;
}

Result<RecipeOptions> ParseRecipeText(const std::string& where, std::string_view text) {
  const std::vector<std::string_view> flags = Flags();
  RecipeOptions options;
  std::string_view rest = text;
  const std::string allow = Cat(" ", kAllowRequantize);
  const bool allowed = rest.ends_with(allow);
  if (allowed) rest.remove_suffix(allow.size());
  const std::string no_repack = Cat(" ", kNoRepack);
  if (rest.ends_with(no_repack)) {
    options.repack = false;
    rest.remove_suffix(no_repack.size());
  }
  if (!rest.starts_with("--")) options.recipe = TakeValue(rest, flags);
  for (const Word& word : kWords) {
    if (TakeFlag(word.flag, rest)) options.*word.value = TakeValue(rest, flags);
  }
  while (TakeFlag(kTensorType, rest)) {
    options.tensor_types.push_back(TakeValue(rest, std::array{kTensorType}));
  }
  options.allow_requantize = allowed || !PermissionDecides(options);
  // Earlier versions wrote rules with the line ends and comments of their file.
  const bool one_line = text.find_first_of(kNotOnOneLine) == std::string_view::npos;
  if (!rest.empty() || (one_line && RecipeText(options) != text)) return NoRecipe(where, text);
  return options;
}

}  // namespace moepack
