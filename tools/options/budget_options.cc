#include "tools/options/budget_options.h"

#include <CLI/CLI.hpp>

#include "libshard/base/limits.h"
#include "libshard/base/text/text.h"
#include "libshard/recipe/recipe_override.h"
#include "libshard/recipe/recipe_types.h"
#include "tools/base/sections.h"
#include "tools/options/options.h"

namespace moepack::cli {
namespace {

constexpr const char* kBaseRecipe = "exact";  // keeps what the source has

void ApplyTypes(const TypePlan& types, QuantizeArguments& quantize) {
  quantize.options.recipe.recipe = kBaseRecipe;
  quantize.options.recipe.tensor_types = types.tensor_types;
}

}  // namespace

void AddBudgetOptions(CLI::App& app, BudgetArguments& arguments) {
  StartSection(app, "Conversion and quantization");
  CLI::Option* budget =
      app.add_option("--budget", arguments.bytes,
                     "Choose the types of every layer's experts and trunk so that the tensors of "
                     "the largest node have at most this size, headers not counted, and "
                     "quantization does the least damage, measured on some rows of every matrix "
                     "and, with --imatrix, weighted by their inputs. The plan pins the types.")
          ->type_name("SIZE")
          ->transform(AsBytes(1));
  for (const char* name : {"--node", "--context", "--stages", "--sweep"})
    budget->excludes(app.get_option(name));
  for (const char* name : TypeOptions()) budget->excludes(app.get_option(name));
  app.add_option("--budget-types", arguments.types,
                 Cat("The types that --budget may give to experts; default: ",
                     Join(std::vector<std::string>(kExpertTypes.begin(), kExpertTypes.end()), ","),
                     ". With iq3_xxs and iq3_s small nodes are better, and slower on a CPU."))
      ->type_name("TYPES")
      ->delimiter(',')
      ->needs(budget);
  AddJobs(app, arguments.jobs);
}

Status TakePinnedTypes(const std::string& plan_file, const TypePlan& types,
                       QuantizeArguments& quantize) {
  if (ChoosesTypes(quantize))
    return Error{Code::kInvalidArgument,
                 Cat(plan_file, " pins the types, so options that choose types cannot be given"),
                 "leave them out, or remove \"types\" from the plan"};
  const auto rules = ParseTensorTypes(types.tensor_types);
  if (!rules) {
    // The parser names the option; here the rules come from a field of the plan.
    std::string message = rules.error().message;
    constexpr std::string_view kOption = "--tensor-type";
    if (message.starts_with(kOption)) message.replace(0, kOption.size(), "tensor_types");
    return Error{Code::kCorrupt, Cat(plan_file, ": types: ", message)};
  }
  ApplyTypes(types, quantize);
  return Ok();
}

Result<TypeBudget> PinTypes(const MoeModel& model, const BudgetArguments& arguments,
                            QuantizeArguments& quantize, Plan& plan) {
  quantize.options.recipe.recipe = kBaseRecipe;
  SHARD_TRY(const QuantizeOptions options, ReadQuantizeOptions(quantize));
  TypeBudgetOptions limits = {.bytes = *arguments.bytes, .plan = &plan, .jobs = arguments.jobs};
  for (const std::string& name : arguments.types) {
    SHARD_TRY(const quant::Format* type, ParseTargetType("--budget-types", name));
    limits.expert_types.push_back(type);
  }
  SHARD_TRY(const TypedGguf base, PrepareGguf(model, options));
  SHARD_TRY(TypeBudget budget, SpendTypes(model, base, limits));
  plan.types =
      TypePlan{budget.tensor_types, *arguments.bytes, budget.bytes, budget.damage, budget.bound};
  ApplyTypes(*plan.types, quantize);
  return budget;
}

}  // namespace moepack::cli
