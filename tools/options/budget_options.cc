#include "tools/options/budget_options.h"

#include <CLI/CLI.hpp>

#include "libshard/base/limits.h"
#include "tools/base/sections.h"
#include "tools/options/options.h"

namespace moepack::cli {
namespace {

// Tensors that no rule names keep what the source has.
constexpr const char* kBaseRecipe = "exact";

}  // namespace

void AddBudgetOptions(CLI::App& app, BudgetArguments& arguments) {
  StartSection(app, Section::kTypes);
  CLI::Option* budget =
      app.add_option("--budget", arguments.bytes,
                     "Choose the types of every layer's experts and trunk so that the weights of "
                     "the largest node have at most this size and quantization does least damage, "
                     "measured on some rows of every matrix. The plan pins the types.")
          ->type_name("SIZE")
          ->transform(AsBytes(1));
  for (const char* name : {"--node", "--context", "--stages", "--sweep"})
    budget->excludes(app.get_option(name));
  AddJobs(app, arguments.jobs);
  app.get_option("--jobs")->needs(budget);
}

Result<TypeBudget> PinTypes(const MoeModel& model, const BudgetArguments& arguments,
                            QuantizeArguments& quantize, Plan& plan) {
  if (!ChoosesTypes(quantize)) quantize.options.recipe.recipe = kBaseRecipe;
  SHARD_TRY(QuantizeOptions options, ReadQuantizeOptions(quantize));
  SHARD_TRY(const TypedGguf base, PrepareGguf(model, options));
  SHARD_TRY(
      TypeBudget budget,
      SpendTypes(model, base, {.bytes = *arguments.bytes, .plan = &plan, .jobs = arguments.jobs}));
  // The rules name every tensor that may change, so it matters little what they were chosen from.
  const std::string recipe =
      options.recipe.recipe.empty() ? std::string(kBaseRecipe) : options.recipe.recipe;
  plan.types = TypePlan{recipe,       budget.tensor_types, *arguments.bytes,
                        budget.bytes, budget.damage,       budget.bound};
  RecipeOptions pinned;
  pinned.recipe = recipe;
  pinned.tensor_types = budget.tensor_types;
  quantize.options.recipe = pinned;
  quantize.rule_files.clear();
  return budget;
}

}  // namespace moepack::cli
