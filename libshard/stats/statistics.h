// Routing statistics: what the routers of a model chose, per session, phase, layer and expert.
// Nothing is summed over layers, because an expert id is only meaningful within its layer.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libshard/base/result.h"

namespace moepack {

inline constexpr uint32_t kMaxStatisticsLayers = 65536;
inline constexpr uint32_t kMaxStatisticsExperts = 4096;  // of one layer
inline constexpr uint32_t kMaxStatisticsTokenId = (1u << 24) - 1;

// The limit for the tokens of all sessions together. No count exceeds the tokens, so none
// overflows.
inline constexpr uint64_t kMaxStatisticsTokens = uint64_t{1} << 53;
// The limits for one session and expert, chosen so that sums over sessions stay finite.
inline constexpr double kMaxGateMass = 9007199254740992;  // 2^53
inline constexpr double kMaxWeightedNorm = 1e100;

// Tallies of one expert. The first position and beginning-of-sequence tokens are attention sinks
// and are routed differently, so they only count in `peak`.
struct ExpertTally {
  uint64_t count = 0;    // tokens that chose the expert
  double gate_mass = 0;  // sum of the applied gates
  // the part of it from tokens in odd runs of kRunTokens (for split halves)
  double odd_gate_mass = 0;
  double weighted_norm = 0;  // sum of gate x norm of the output (REAP's sum)
  float peak = 0;            // largest magnitude in an output, before the gate
  bool operator==(const ExpertTally&) const = default;
};
inline constexpr uint32_t kRunTokens = 64;

using LayerTally = std::vector<ExpertTally>;  // by expert id

enum class Phase : uint8_t { kPrefill, kDecode };
inline constexpr std::array kPhaseNames = {"prefill", "decode"};

struct PhaseTally {
  uint64_t tokens = 0;  // counted
  uint64_t sinks = 0;   // seen, but only counted in `peak`
  // in the order of ModelIdentity::layers; empty if nothing was seen
  std::vector<LayerTally> layers;
  bool operator==(const PhaseTally&) const = default;
};

// Token id and how often it was seen, ascending by id.
using TokenCounts = std::vector<std::pair<uint32_t, uint32_t>>;

struct SessionTally {
  std::string name, bucket;
  std::string executor;              // "cpu"
  std::string precision;             // formats of the weights, most bytes first: "q4_K+f32"
  std::array<PhaseTally, 2> phases;  // by Phase
  // Counts of the prefill, without sinks; empty if nobody counted them.
  TokenCounts token_counts = {};
  std::string tokens_digest = {};  // SessionDigest; "" if nobody noted it
  bool operator==(const SessionTally&) const = default;
};

struct MoeLayerShape {
  uint32_t layer = 0, expert_count = 0, top_k = 0;
  bool operator==(const MoeLayerShape&) const = default;
};

struct ModelIdentity {
  std::string name, architecture;
  // those of a distribution; "" for other sources
  std::string model_version, shard_version, replica_version;
  // XXH3-128 of all routers as F32, in layer order. It is the same for every quantization and
  // split.
  std::string router_digest;
  std::vector<MoeLayerShape> layers;  // ascending
  bool operator==(const ModelIdentity&) const = default;
};

struct Statistics {
  ModelIdentity model;
  std::vector<SessionTally> sessions;
  // For each layer of the model, how many tokens chose experts i and j together, at PairIndex(i, j,
  // E).
  std::vector<std::vector<uint64_t>> co_selection;
  bool operator==(const Statistics&) const = default;
};

// The number of pairs of `expert_count` ids, and the position of pair i < j in the order (0, 1),
// (0, 2), ..., (1, 2), ...
constexpr uint64_t PairCount(uint64_t expert_count) {
  return expert_count * (expert_count - 1) / 2;
}
constexpr uint64_t PairIndex(uint64_t i, uint64_t j, uint64_t expert_count) {
  return i * (2 * expert_count - i - 1) / 2 + (j - i - 1);
}

// Returns statistics in which nothing has been seen yet.
Statistics EmptyStatistics(const ModelIdentity& model);
// Appends the sessions of `other`. Returns kMismatch if the models differ (in routers or layers),
// kInvalidArgument if a session of the same name already exists, and kCorrupt if there would be too
// many tokens; `into` is then unchanged, and the message names `where`. REQUIRES: both were
// read from a file, or made by a collector.
Status MergeStatistics(const std::string& where, const Statistics& other, Statistics& into);

// Returns counted tokens and sinks of all sessions and phases; no value above kMaxStatisticsTokens.
std::optional<uint64_t> CountTokens(const std::vector<SessionTally>& sessions);

// The sums over all phases of all sessions, or of the sessions of one bucket (null: all).
struct TotalTally {
  uint64_t tokens = 0;
  std::vector<LayerTally> layers;
};
TotalTally AddUp(const Statistics& statistics, const std::string* bucket = nullptr);

}  // namespace moepack
