// The counts from which a placement table is learned. Private to libshard/plan/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "libshard/plan/placement.h"

namespace moepack {

inline constexpr double kPlacementSmoothing = 0.5;  // added to every count
inline constexpr uint64_t kLeastTokenCount = 2;     // over all sessions, for a row of its own

// A session to learn from; it borrows the counts.
struct Lesson {
  const TokenCounts* counts;
  uint32_t group;
};

// The tokens of all sessions, by group.
struct GroupTokens {
  size_t groups = 0;
  std::vector<uint32_t> ids;     // ascending
  std::vector<uint64_t> counts;  // [token][group]
  std::vector<uint64_t> totals;  // [group]
  uint64_t symbols = 1;          // tokens that are seen often enough, plus one for all others
  double mean_total = 0;         // of the groups that have tokens

  // REQUIRES: the id exists.
  size_t Row(uint32_t id) const {
    return static_cast<size_t>(std::lower_bound(ids.begin(), ids.end(), id) - ids.begin());
  }
  const uint64_t* CountsOf(size_t row) const { return counts.data() + row * groups; }
  uint64_t Total(size_t row) const {
    return std::accumulate(CountsOf(row), CountsOf(row) + groups, uint64_t{0});
  }
};

// The share of a symbol among a group's tokens. Groups are scaled to the same total first:
// otherwise a token that nobody has seen would favour the group with the fewest tokens. REQUIRES:
// total > 0.
inline double SmoothedShare(uint64_t count, uint64_t total, const GroupTokens& tokens) {
  const double scaled = static_cast<double>(count) * tokens.mean_total / static_cast<double>(total);
  return (scaled + kPlacementSmoothing) /
         (tokens.mean_total + kPlacementSmoothing * static_cast<double>(tokens.symbols));
}

// Leaves each session out once. Sessions that are the only ones of their group are skipped, because
// the table would not have the group. `rows` are the ids that have a row in the table, ascending.
PlacementTrial TryPlacement(const std::vector<Lesson>& lessons, const GroupTokens& tokens,
                            const std::vector<uint32_t>& rows,
                            const std::vector<uint32_t>& sessions_by_group,
                            const PlacementOptions& options);

}  // namespace moepack
