// Which experts every node holds, decided from the scores of sessions. A strategy is a pure
// function: the same input gives the same sets on every machine, in whatever order the sessions
// come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/expert_ids.h"
#include "libshard/stats/expert_scores.h"

namespace moepack {

// Layers are counted as ExpertScores::layers has them, groups from 0.
struct StrategyInput {
  const ExpertScores* scores = nullptr;
  std::vector<size_t> sessions;  // of `scores`, those to decide from; at least one
  // rooms[group][layer]: how many experts the group may hold there, pinned ones included.
  std::vector<std::vector<uint32_t>> rooms;
  std::vector<ExpertIds> pinned;  // by layer: held by every group
  std::vector<ExpertIds> barred;  // by layer: held by no group, such as the overlay's experts
  uint64_t seed = 0;              // of everything that is tried from random starts
};

// held[group][layer]: exactly as many experts as there is room for, or all that are not barred.
using HeldSets = std::vector<std::vector<ExpertIds>>;

// REQUIRES for all: `scores` passes CheckExpertScores; `pinned` and `barred` have an entry for
// every layer and no id in common; every room has place for the pinned experts.

// Groups of equal weight: layer by layer, the best expert that is left goes to the group with the
// least sum of scores that has room, then experts are swapped while the sums come closer. What room
// is left takes the best experts that the group lacks.
Result<HeldSets> HoldRanked(const StrategyInput& input);

// Experts that tokens choose together stay together: each layer's experts are cut into parts of
// equal size so that the fewest pairs are cut, and sessions say which parts of different layers
// belong to one group. What room is left takes the experts that are chosen most with the group's
// own. kInvalidArgument when the scores have no pairs.
Result<HeldSets> HoldTogether(const StrategyInput& input);

// Sessions that use the same experts share a group: balanced k-means over sessions, then in turns
// the best set for every group's sessions and the best group for every session. Groups may share
// experts. kInvalidArgument for fewer sessions than groups.
Result<HeldSets> HoldForSessions(const StrategyInput& input);

// Every group holds the best experts of all sessions.
Result<HeldSets> HoldSame(const StrategyInput& input);

}  // namespace moepack
