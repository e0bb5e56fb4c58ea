// Which experts every node holds, decided from the scores of sessions. A strategy is a pure
// function: the same input gives the same sets on every machine, whatever the order of the
// sessions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/expert_ids.h"
#include "libshard/stats/expert_scores.h"

namespace moepack {

// Layers are numbered as in ExpertScores::layers, groups from 0.
struct StrategyInput {
  const ExpertScores* scores = nullptr;
  std::vector<size_t> sessions;  // of `scores`: those to decide from; at least one
  // rooms[group][layer]: how many experts the group may hold there, including pinned ones.
  std::vector<std::vector<uint32_t>> rooms;
  std::vector<ExpertIds> pinned;  // by layer: held by every group
  std::vector<ExpertIds> barred;  // by layer: held by no group, such as the overlay's experts
  uint64_t seed = 0;              // for everything that is tried from random starts
};

// held[group][layer]: exactly as many experts as there is room for, or all that are not barred.
using HeldSets = std::vector<std::vector<ExpertIds>>;

// REQUIRES for all: `scores` passes CheckExpertScores; `pinned` and `barred` have an entry for
// every layer and no id in common; every room has space for the pinned experts.

// Groups of equal weight: layer by layer, the best remaining expert goes to the group with room
// that has the smallest sum of scores, then experts are swapped as long as the sums get closer. The
// remaining room is filled with the best experts that the group lacks.
Result<HeldSets> HoldRanked(const StrategyInput& input);

// Experts that tokens choose together stay together: each layer's experts are cut into parts of
// equal size so that the fewest pairs are cut, and sessions decide which parts of different layers
// belong to one group. The remaining room is filled with the experts chosen most often with the
// group's own. kInvalidArgument if the scores have no pairs.
Result<HeldSets> HoldTogether(const StrategyInput& input);

// Sessions that use the same experts share a group: balanced k-means over sessions, then
// alternately the best set for every group's sessions and the best group for every session. Groups
// may share experts. Of more sessions than kMostComparedSessions (balanced_groups.h) a sample is
// clustered. kInvalidArgument for fewer sessions than groups.
Result<HeldSets> HoldForSessions(const StrategyInput& input);

// Every group holds the best experts of all sessions.
Result<HeldSets> HoldSame(const StrategyInput& input);

}  // namespace moepack
