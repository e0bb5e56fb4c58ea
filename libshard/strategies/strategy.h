// Which experts every node holds, decided from the scores of sessions. A strategy is a pure
// function: the same input gives the same sets on every machine, whatever the order of the
// sessions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
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

// A row of the table of partitions (libshard/plan/partition.h), which its file defines.
struct Strategy {
  std::string_view name;       // "ranked", for --partition
  bool reads_pairs = false;    // also reads which experts tokens chose together
  bool random_starts = false;  // uses StrategyInput::seed
  std::string_view help;       // a few words that stand in brackets after the name

  // REQUIRES: `scores` passes CheckExpertScores; `pinned` and `barred` have an entry for every
  // layer and no id in common; every room has space for the pinned experts.
  Result<HeldSets> (*hold)(const StrategyInput& input);
};

// All strategies, in the order of the help.
#define SHARD_STRATEGIES(ROW) \
  ROW(kHoldRanked)            \
  ROW(kHoldForSessions)       \
  ROW(kHoldTogether)          \
  ROW(kHoldSame)

#define SHARD_DECLARE_STRATEGY(name) extern const Strategy name;
SHARD_STRATEGIES(SHARD_DECLARE_STRATEGY)
#undef SHARD_DECLARE_STRATEGY

}  // namespace moepack
