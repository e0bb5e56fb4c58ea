// Where a plan that exists already is read from.
#pragma once

#include <string>

#include "libshard/base/result.h"
#include "libshard/model/model.h"
#include "libshard/plan/plan.h"

namespace moepack::cli {

// The plan of a distribution. kMismatch unless it was made from `model`, which messages call
// `source`.
Result<Plan> PlanOfDistribution(const std::string& directory, const std::string& source,
                                const MoeModel& model);

// Reads a plan file, or the plan of a distribution if `path` is the directory of one.
Result<Plan> ReadPlan(const std::string& path, const std::string& source, const MoeModel& model);

}  // namespace moepack::cli
