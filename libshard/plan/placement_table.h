// What a distribution knows, without a model, about which group suits a session: scores of token
// ids, and what the sessions of each group look like to the routers. It is plain data; placement.h
// makes and queries it, docs/planning.md explains it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace moepack {

inline constexpr uint32_t kPlacementPrefix = 32;  // tokens, by default
inline constexpr uint32_t kMaxPlacementPrefix = 1u << 20;
inline constexpr double kPlacementMargin = 2;  // nats, by default: odds of 7 to 1
inline constexpr double kMaxPlacementMargin = 1e6;

// How often the table was right about sessions that it had not seen: each was left out once, and a
// prefix was drawn from its tokens.
struct PlacementTrial {
  uint64_t sessions = 0, right = 0;
  uint64_t sure = 0, sure_right = 0;  // of those for which PlacementAnswer::sure would be set
  bool operator==(const PlacementTrial&) const = default;
};

// Scores in steps of `scale` nats: the log-probability of a token in the sessions of a group, less
// the mean over the groups that have sessions. Those of the other groups are 0. A token without a
// row scores 0 for every group, because nothing shows whether training saw it.
struct TokenScoreTable {
  double scale = 0;
  std::vector<uint32_t> ids;   // ascending
  std::vector<int8_t> scores;  // [token][group]
  uint64_t left_out = 0;       // tokens that deserved a row but got none for lack of room
  bool operator==(const TokenScoreTable&) const = default;
};

// For each group the mean over its sessions of the root of each expert's share of its layer's
// score, in steps of 1/255. It has the first `layers` MoE layers.
struct PlacementCentroids {
  uint32_t layers = 0;
  std::vector<uint8_t> values;  // [group][layer][expert]
  bool operator==(const PlacementCentroids&) const = default;
};

// An answer is sure only if it is based on the text: half of the tokens must have a row.
inline bool EnoughKnown(uint64_t known, uint64_t tokens) { return 2 * known >= tokens; }

struct PlacementTable {
  uint32_t prefix_tokens = kPlacementPrefix;  // how many tokens of a session are considered
  double margin = kPlacementMargin;           // a smaller lead, in nats, is not an answer
  // The sessions that the table was learned from, by group. A group without any is never chosen; at
  // least two groups have some.
  std::vector<uint32_t> sessions_by_group;
  PlacementTrial trial;
  TokenScoreTable tokens;
  std::optional<PlacementCentroids> centroids;

  size_t groups() const { return sessions_by_group.size(); }
  bool operator==(const PlacementTable&) const = default;
};

}  // namespace moepack
