// Makes, queries, writes and reads the placement table: which group a session should go to.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/expert_ids.h"
#include "libshard/base/text/json.h"
#include "libshard/model/model.h"
#include "libshard/plan/placement_table.h"
#include "libshard/plan/plan.h"
#include "libshard/stats/expert_scores.h"

namespace moepack {

struct PlacementAnswer {
  // By group, in nats, relative to each other; no value for groups that are never chosen.
  std::vector<std::optional<double>> scores;
  uint32_t best = 0, second = 0;  // the lowest if several are equal
  double margin = 0;              // how far the best leads, in nats
  bool sure = false;              // margin >= PlacementTable::margin, and EnoughKnown
  uint32_t tokens = 0;            // that were considered
  double known_share = 0;         // the share of them with a row in the table
};

// Scores the first `prefix_tokens` of `tokens`, which begin after a beginning-of-sequence token,
// because the table has not seen any. If no token has a row, the answer is the lowest group, and
// not sure.
PlacementAnswer Place(const PlacementTable& table, std::span<const uint32_t> tokens);

// Per session the group whose eligible experts capture most of its scores: the mean over layers of
// their share; the lowest group if several are equal. No value for sessions without scores.
// REQUIRES: the layers of `scores` are those of the plan.
std::vector<std::optional<uint32_t>> GroupsOfSessions(const Plan& plan, const ExpertScores& scores);

struct PlacementOptions {
  uint32_t prefix_tokens = kPlacementPrefix;
  double margin = kPlacementMargin;
  uint64_t token_bytes = 128u << 10;    // room for ids and scores of tokens
  uint64_t centroid_bytes = 64u << 10;  // room for centroids
};

// Learns from the sessions that have token counts and a group. kInvalidArgument if fewer than two
// groups have such sessions; the message says why there is nothing to place.
Result<PlacementTable> MakePlacement(const ExpertScores& training,
                                     const std::vector<std::optional<uint32_t>>& group_of_session,
                                     size_t groups, const PlacementOptions& options);

// The table for a plan, or none if there is nothing to learn from or nothing to choose. REQUIRES:
// as for GroupsOfSessions.
std::optional<PlacementTable> PlacementFor(const Plan& plan, const ExpertScores& scores);

inline constexpr const char* kPlacementRule = "table";

// The natural logarithm from basic operations alone, whose results IEEE 754 defines: a table has
// the same bytes on every machine. REQUIRES: x > 0, finite.
double FixedLog(double x);

// "placement" of plan.json, and of "routing" in distribution.json, with "rule": "table".
Json PlacementToJson(const PlacementTable& table);
// Reads it back; the document may be hostile. kCorrupt if groups or layers differ from those given,
// and for tables that contradict themselves.
Result<PlacementTable> PlacementFromJson(const std::string& where, const Json& value, size_t groups,
                                         const LayerCounts& layers);

// Learns the placement table of a plan that was made without one.

// The table for a plan of this model from the scores of the options, which are the only options
// used; no value if one group suits every session best, or if the scores have no token counts.
// Errors are those of MakePlan for scores. REQUIRES: options.scores.
Result<std::optional<PlacementTable>> LearnPlacement(const MoeModel& model,
                                                     const PlanOptions& options, const Plan& plan);

}  // namespace moepack
