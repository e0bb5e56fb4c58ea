// Partitions that decide from scores: what a strategy wants held becomes groups with owners.
// Private to libshard/plan/.
#pragma once

#include "libshard/base/result.h"
#include "libshard/plan/partition.h"
#include "libshard/strategies/strategy.h"

namespace moepack {

using Strategy = Result<HeldSets> (*)(const StrategyInput& input);

// Sets groups and remainder of the plan. Of the groups that hold an expert, that one owns it whose
// sessions use it most; of equal ones that which owns fewest in the layer so far, then the lowest.
// For the others it is fill. kInvalidArgument where a group has no room for top-k and the pinned.
Status MakeByStrategy(Strategy strategy, const PartitionInput& input, Plan& plan);

// A row of the table of partitions.
template <Strategy kStrategy>
Status MakeByScores(const PartitionInput& input, Plan& plan) {
  return MakeByStrategy(kStrategy, input, plan);
}

}  // namespace moepack
