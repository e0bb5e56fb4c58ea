// Summarizes statistics: how concentrated each layer is, whether there was enough text, and which
// experts are Super Experts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libshard/stats/statistics.h"

namespace moepack {

struct LayerSummary {
  uint32_t layer = 0, expert_count = 0;
  uint32_t used = 0;               // chosen by at least one counted token
  double top_quarter_share = 0;    // of the gate mass; a quarter of the experts, rounded up
  double largest_share = 0;        // of one expert
  uint64_t tokens_per_expert = 0;  // median count, rounded
  // Spearman's correlation between the gate masses from even and odd runs of tokens; no value if it
  // is undefined.
  std::optional<double> split_half;
};

// There was enough text if every layer's split_half is above this.
inline constexpr double kStableSplitHalf = 0.98;

// An expert whose largest output stands out: peak > max(99.5th percentile of all experts of all
// layers, largest / 10), in the first three quarters of the blocks. The rule is that of arXiv
// 2507.23279. With fewer than kLeastPeaks experts the largest is always above the percentile, so
// none is reported.
struct SuperExpert {
  uint32_t layer = 0, expert = 0;
  float peak = 0;
};

inline constexpr size_t kLeastPeaks = 200;  // experts of all layers

// By layer, then id. `peaks` has the largest output of each expert, in the order of `layers`.
// REQUIRES: no NaN.
std::vector<SuperExpert> FindSuperExperts(const std::vector<MoeLayerShape>& layers,
                                          const std::vector<std::vector<float>>& peaks);

struct BucketSummary {
  std::string bucket;
  uint64_t sessions = 0, prefill_tokens = 0, decode_tokens = 0;
};

struct StatisticsSummary {
  std::vector<LayerSummary> layers;
  uint64_t expert_count = 0;               // of all layers
  std::vector<SuperExpert> super_experts;  // by layer, then id; none below kLeastPeaks experts
  std::vector<BucketSummary> buckets;      // in the order of their first session
  bool stable() const;
};

StatisticsSummary Summarize(const Statistics& statistics);

}  // namespace moepack
