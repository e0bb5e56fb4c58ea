#include "libshard/plan/placement_learning.h"

#include "libshard/plan/placement.h"
#include "libshard/plan/plan_steps.h"

namespace moepack {

Result<std::optional<PlacementTable>> LearnPlacement(const MoeModel& model,
                                                     const PlanOptions& options, const Plan& plan) {
  PlanOptions scores_alone;
  scores_alone.scores = options.scores;
  scores_alone.statistics_files = options.statistics_files;
  SHARD_TRY(const PlanBasis basis, BasisOf(model, scores_alone, plan));
  return PlacementFor(plan, *basis.scores);
}

}  // namespace moepack
