// Compares plans with different numbers of groups.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/text/json.h"
#include "libshard/plan/plan.h"
#include "tools/reports/node_report.h"

namespace moepack::cli {

struct ComparedPlan {
  Plan plan;
  std::optional<PartBytes> bytes;  // no value for a names-only checkpoint
  std::vector<std::string> warnings;
};

// One line per plan; captures only if plans have expectations.
std::string ComparisonTable(const std::vector<ComparedPlan>& plans);
// "compared 2, 4 groups; the largest nodes have 9.1 MB, 5.2 MB".
std::string ComparisonLine(const std::vector<ComparedPlan>& plans);
moepack::Json ComparisonJson(const std::vector<ComparedPlan>& plans);

}  // namespace moepack::cli
