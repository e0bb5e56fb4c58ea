// The recipes by name, one row each.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "libshard/base/result.h"
#include "quant/format.h"

namespace moepack {

// Where a rule of llama-quantize holds. In docs/quantization.md a matrix is number i of n.
enum class RuleCase : uint8_t {
  kNowhere,
  kEverywhere,
  kEightExperts,             // Mixtral, as llama-quantize sees it
  kFourQueriesPerKey,        // at least
  kFirstTwo,                 // i < 2
  kFirstFour,                // i < 4
  kFirstSixteenth,           // i < n/16
  kFirstEighth,              // i < n/8
  kFirstEighthImportance,    // that, with an importance matrix
  kFirstEighthNoImportance,  // that, without one
  kEndsAndEveryThird,        // the eighths at both ends, every third between
};

// Names of types; "" is the base type.
struct RecipeRule {
  RuleCase where = RuleCase::kNowhere;
  std::string_view type = {}, otherwise = {};
};

// Of a profile, our own kind of recipe: one type each for the trunk and for the two kinds of expert
// matrices, whatever the layer. "" keeps what the source has.
struct ProfileTypes {
  std::string_view trunk = {};               // attention, dense layers, shared experts, output
  std::string_view embedding = {};           // token_embd.weight
  std::string_view gate_up = {}, down = {};  // routed experts
};

// A row holds all that there is to know of a recipe.
struct Recipe {
  std::string_view name = {};     // "Q4_K_M", "balanced"
  std::string_view alias = {};    // "Q4_K", for the one of several sizes that is meant
  std::string_view base = {};     // Format name of the base type, "" for a profile
  int file_type = -1;             // general.file_type, -1: that of the most frequent type
  std::string_view summary = {};  // one line for the help
  RecipeRule value = {}, attention_output = {}, down = {};  // by category of matrix
  std::string_view not_stacked = {};  // type of matrices outside of experts, "" for the rules above
  const ProfileTypes* profile = nullptr;
};
// The list: file types of llama-quantize that this version encodes, then profiles.
std::span<const Recipe> AllRecipes();
// By name or alias, without regard to case; null when unknown.
const Recipe* FindRecipe(std::string_view name);
// The same; kInvalidArgument with the list, kUnsupported for those of llama-quantize that this
// version does not have.
Result<const Recipe*> RequireRecipe(std::string_view name);

// general.file_type of a model that is mostly `type`; that of F32 for types without one.
int FileTypeOf(const quant::Format& type);

}  // namespace moepack
