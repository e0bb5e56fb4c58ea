// Routing statistics: what the routers of a model chose, per session, phase, layer and expert.
// Layers are never added up: an expert id has a meaning only inside its layer.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"

namespace moepack {

inline constexpr uint32_t kMaxStatisticsLayers = 65536;
inline constexpr uint32_t kMaxStatisticsExperts = 4096;  // of one layer

// Tokens of all sessions together. Every count is at most the tokens, so that none overflows.
inline constexpr uint64_t kMaxStatisticsTokens = uint64_t{1} << 53;
// The limits for one session and expert, chosen so that sums over sessions stay finite.
inline constexpr double kMaxGateMass = 9007199254740992;  // 2^53
inline constexpr double kMaxWeightedNorm = 1e100;

// The first position and beginning-of-sequence tokens are routed in a way of their own (attention
// sinks): they count in `peak` alone.
struct ExpertTally {
  uint64_t count = 0;        // tokens that chose the expert
  double gate_mass = 0;      // sum of the applied gates
  double odd_gate_mass = 0;  // of that, from tokens in odd runs of kRunTokens (split halves)
  double weighted_norm = 0;  // sum of gate x norm of the output (REAP's sum)
  float peak = 0;            // largest magnitude in an output, before the gate
  bool operator==(const ExpertTally&) const = default;
};
inline constexpr uint32_t kRunTokens = 64;

using LayerTally = std::vector<ExpertTally>;  // by expert id

enum class Phase : uint8_t { kPrefill, kDecode };
inline constexpr std::array kPhaseNames = {"prefill", "decode"};

struct PhaseTally {
  uint64_t tokens = 0;             // counted
  uint64_t sinks = 0;              // seen, and in `peak` alone
  std::vector<LayerTally> layers;  // as ModelIdentity::layers; empty when nothing was seen
  bool operator==(const PhaseTally&) const = default;
};

struct SessionTally {
  std::string name, bucket;
  std::string executor;              // "cpu"
  std::string precision;             // formats of the weights, most bytes first: "q4_K+f32"
  std::array<PhaseTally, 2> phases;  // by Phase
  bool operator==(const SessionTally&) const = default;
};

struct MoeLayerShape {
  uint32_t layer = 0, expert_count = 0, top_k = 0;
  bool operator==(const MoeLayerShape&) const = default;
};

struct ModelIdentity {
  std::string name, architecture;
  std::string model_version, shard_version, replica_version;  // of a distribution, else ""
  // XXH3-128 of all routers as F32, in layer order: the same for every quantization and split.
  std::string router_digest;
  std::vector<MoeLayerShape> layers;  // ascending
  bool operator==(const ModelIdentity&) const = default;
};

struct Statistics {
  ModelIdentity model;
  std::vector<SessionTally> sessions;
  // Per layer of the model: how many tokens chose experts i and j together, at PairIndex(i, j, E).
  std::vector<std::vector<uint64_t>> co_selection;
  bool operator==(const Statistics&) const = default;
};

// Pairs of `expert_count` ids, and the place of pair i < j: (0, 1), (0, 2), ..., (1, 2), ...
constexpr uint64_t PairCount(uint64_t expert_count) {
  return expert_count * (expert_count - 1) / 2;
}
constexpr uint64_t PairIndex(uint64_t i, uint64_t j, uint64_t expert_count) {
  return i * (2 * expert_count - i - 1) / 2 + (j - i - 1);
}

// Nothing seen yet.
Statistics EmptyStatistics(const ModelIdentity& model);
// Appends the sessions of `other`. Both pass CheckStatistics. Naming `where`, and with `into` as it
// was: kMismatch when the models differ (other routers or other layers), kInvalidArgument when a
// session of that name is there already, kCorrupt when there would be too many tokens.
Status MergeStatistics(const std::string& where, const Statistics& other, Statistics& into);

// Counted tokens and sinks of all sessions and phases; none above kMaxStatisticsTokens.
std::optional<uint64_t> CountTokens(const std::vector<SessionTally>& sessions);

// All sessions and phases together, or those of one bucket (null: of all).
struct TotalTally {
  uint64_t tokens = 0;
  std::vector<LayerTally> layers;
};
TotalTally AddUp(const Statistics& statistics, const std::string* bucket = nullptr);

}  // namespace moepack
