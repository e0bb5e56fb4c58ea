// The recipes by name, one row each.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "libshard/base/result.h"
#include "libshard/recipe/llama_conditions.h"
#include "quant/format.h"

namespace moepack {

// Names of types; "" is the base type.
struct RecipeRule {
  LlamaCondition where = when::kNowhere;
  std::string_view type = {}, otherwise = {};
};

// The types of a profile, our own kind of recipe: one for the trunk and one for each of the two
// kinds of expert matrices, the same in all layers. "" keeps the source's type.
struct ProfileTypes {
  std::string_view trunk = {};               // attention, dense layers, shared experts, output
  std::string_view embedding = {};           // token_embd.weight
  std::string_view gate_up = {}, down = {};  // routed experts
};

// One row per recipe; no other code knows recipes.
struct Recipe {
  std::string_view name = {};  // "Q4_K_M", "balanced"
  // the short name, "Q4_K", of one of several sizes (S, M, L)
  std::string_view alias = {};
  std::string_view base = {};  // Format name of the base type; "" for a profile
  // general.file_type; no value: that of the most frequent type
  std::optional<uint32_t> file_type = {};
  std::string_view summary = {};                            // one line for the help
  RecipeRule value = {}, attention_output = {}, down = {};  // by category of matrix
  RecipeRule key = {}, query = {}, gate_up = {};
  // instead of those above if there is no importance matrix
  std::optional<RecipeRule> value_plain = {}, down_plain = {};
  std::string_view output = "q6_K";  // of the output matrix
  std::string_view embedding = {};   // of an embedding that is not also the output
  // llama-quantize has special rules for recipes of less than three bits: other exceptions
  // (kExceptions in recipe_llama.cc), and down matrices are always counted.
  bool below_three_bits = false;
  std::string_view not_stacked = {};  // type of matrices outside experts; "" for the rules above
  const ProfileTypes* profile = nullptr;
};
// All recipes: the file types of llama-quantize that this version encodes, then profiles.
std::span<const Recipe> AllRecipes();
// Finds a recipe by name or alias, ignoring case; null if unknown.
const Recipe* FindRecipe(std::string_view name);
// The same with an error: kUnsupported for recipes of llama-quantize that this version lacks,
// otherwise kInvalidArgument with the list.
Result<const Recipe*> RequireRecipe(std::string_view name);

// general.file_type of a model that is mostly `type`; for a type without a number, that of F32.
uint32_t FileTypeOf(const quant::Format& type);

}  // namespace moepack
