// Learns the placement table of a plan that was made without one.
#pragma once

#include <optional>

#include "libshard/base/result.h"
#include "libshard/model/model.h"
#include "libshard/plan/placement_table.h"
#include "libshard/plan/plan.h"

namespace moepack {

// The table for a plan of this model from the scores of the options, which are the only options
// used; no value if one group suits every session best, or if the scores have no token counts.
// Errors are those of MakePlan for scores. REQUIRES: options.scores.
Result<std::optional<PlacementTable>> LearnPlacement(const MoeModel& model,
                                                     const PlanOptions& options, const Plan& plan);

}  // namespace moepack
