// The types that a budget of bytes chose, as a table and as JSON.
#pragma once

#include <string>

#include "libshard/base/text/json.h"
#include "libshard/pack/type_budget.h"

namespace moepack::cli {

// Three digits.
std::string FormatDamage(double damage);

// One line for each part and type, with the layers that have it.
std::string BudgetText(const TypeBudget& budget, uint64_t allowed);
moepack::Json BudgetJson(const TypeBudget& budget, uint64_t allowed);

}  // namespace moepack::cli
