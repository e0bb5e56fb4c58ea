// A plan for nodes of different sizes.
#pragma once

#include <cstdint>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/model/model.h"
#include "libshard/plan/plan.h"

namespace moepack {

// Returns a plan of one group with the overlay of `options`: what every node of any plan holds.
Result<Plan> PlanOverlayAlone(const MoeModel& model, PlanOptions options);

// Returns the plan of options.partition in which node g may pick from eligible[g] experts of every
// layer, the overlay's included. A contiguous partition gives larger nodes longer runs, and nodes
// whose runs hold experts of the overlay too (its scheme is then contiguous-by-node), and gives
// every node the experts that follow its run. Other
// partitions divide by number as usual, and the sizes of their nodes must be measured.
// kInvalidArgument if all nodes together have no room for every expert, because without statistics
// nobody knows which to leave out, and for options that are not uniform where that changes nothing,
// because every node is filled to what it has room for; otherwise errors of MakePlan. REQUIRES:
// every eligible count is at least that of the overlay.
Result<Plan> PlanForNodes(const MoeModel& model, const PlanOptions& options,
                          const std::vector<uint32_t>& eligible);

}  // namespace moepack
