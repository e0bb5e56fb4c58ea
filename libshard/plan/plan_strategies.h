// Partitions that decide from scores: the sets chosen by a strategy become groups with owners.
// Private to libshard/plan/.
#pragma once

#include "libshard/base/result.h"
#include "libshard/plan/partition.h"
#include "libshard/strategies/strategy.h"

namespace moepack {

// Sets groups and remainder of the plan. Among the groups that hold an expert, the one whose
// sessions use it most owns it; if several are equal, the one that owns the fewest in the layer so
// far, then the lowest. For the others it is fill. kInvalidArgument if a group has no room for
// top-k and the pinned experts.
Status MakeByStrategy(const Strategy& strategy, const PartitionInput& input, Plan& plan);

}  // namespace moepack
