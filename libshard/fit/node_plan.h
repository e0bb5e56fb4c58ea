// A plan for nodes of different sizes.
#pragma once

#include <cstdint>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/model/model.h"
#include "libshard/plan/plan.h"

namespace moepack {

// Returns the plan of options.partition in which node g may pick from eligible[g] experts of every
// layer, the overlay's included. A contiguous partition gives larger nodes longer runs (its scheme
// is then contiguous-by-node), and every node the experts that follow its run; another one keeps
// what it does by number, and how large its nodes are must be measured. kInvalidArgument when all
// nodes together have no room for every expert, since without statistics nobody knows which to
// leave out; else errors of MakePlan. REQUIRES: every eligible count is at least that of the
// overlay.
Result<Plan> PlanForNodes(const MoeModel& model, const PlanOptions& options,
                          const std::vector<uint32_t>& eligible);

}  // namespace moepack
