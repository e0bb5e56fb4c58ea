#include "tools/reports/planning/budget_report.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "libshard/base/text/expert_ids.h"
#include "libshard/base/text/text.h"
#include "tools/base/output.h"
#include "tools/base/table.h"

namespace moepack::cli {
namespace {

struct BudgetRow {
  std::string part, type;
  ExpertIds layers;
  uint64_t bytes = 0;
  double damage = 0;
};

// In the order in which parts first occur.
std::vector<BudgetRow> RowsOf(const TypeBudget& budget) {
  std::vector<BudgetRow> rows;
  for (const BudgetedPart& part : budget.parts) {
    auto row = std::find_if(rows.begin(), rows.end(), [&](const BudgetRow& each) {
      return each.part == part.part && each.type == part.type;
    });
    if (row == rows.end()) row = rows.insert(rows.end(), {part.part, part.type, {}, 0, 0});
    if (part.layer) row->layers.push_back(*part.layer);
    row->bytes += part.bytes;
    row->damage += part.damage;
  }
  return rows;
}

}  // namespace

std::string FormatDamage(double damage) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", damage);
  return text;
}

std::string BudgetText(const TypeBudget& budget, uint64_t allowed) {
  Table table({"part", "layers", "type", ">of a node", ">damage"});
  for (const BudgetRow& row : RowsOf(budget)) {
    table.Row({row.part, row.layers.empty() ? "-" : FormatIds(row.layers), row.type,
               FormatBytes(row.bytes), FormatDamage(row.damage)});
  }
  return Cat("types for tensors of at most ", FormatBytes(allowed),
             " on a node: ", FormatBytes(budget.bytes), ", damage ", FormatDamage(budget.damage),
             " (no choice has less than ", FormatDamage(budget.bound), ")\n", table.Render());
}

moepack::Json BudgetJson(const TypeBudget& budget, uint64_t allowed) {
  moepack::Json parts = moepack::Json::array();
  for (const BudgetedPart& part : budget.parts) {
    parts.push_back({{"layer", part.layer ? moepack::Json(*part.layer) : moepack::Json(nullptr)},
                     {"part", part.part},
                     {"type", part.type},
                     {"bytes", part.bytes},
                     {"damage", part.damage}});
  }
  return {{"budget", allowed},
          {"bytes", budget.bytes},
          {"damage", budget.damage},
          {"damage_bound", budget.bound},
          {"parts", std::move(parts)}};
}

}  // namespace moepack::cli
