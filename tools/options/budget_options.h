// --budget of plan: types that fit in a number of bytes.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libshard/pack/type_budget.h"
#include "tools/options/quantize_options.h"

namespace moepack::cli {

struct BudgetArguments {
  std::optional<uint64_t> bytes;
  std::vector<std::string> types;  // that experts may get; empty: those of kExpertTypes
  size_t jobs = 0;
};

// --budget, --budget-types, --jobs. Options of `app` that --budget contradicts are excluded.
void AddBudgetOptions(CLI::App& app, BudgetArguments& arguments);

// Chooses types for the largest node of the plan, pins them in it and makes `quantize` choose them.
// REQUIRES: --budget was given. Errors of PrepareGguf and SpendTypes.
Result<TypeBudget> PinTypes(const MoeModel& model, const BudgetArguments& arguments,
                            QuantizeArguments& quantize, Plan& plan);

// Makes `quantize` choose the types that a plan pins. kInvalidArgument if options choose types,
// too; kCorrupt for invalid rules.
Status TakePinnedTypes(const std::string& plan_file, const TypePlan& types,
                       QuantizeArguments& quantize);

}  // namespace moepack::cli
