#include "libshard/stats/summary.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "libshard/stats/quantile.h"

namespace moepack {
namespace {

// Both numbers, and the first three quarters of the blocks below, are those of arXiv 2507.23279.
constexpr double kPeakQuantile = 0.995;
constexpr double kLargestOverPeak = 10;

LayerSummary SummarizeLayer(const MoeLayerShape& shape, const LayerTally& tally) {
  LayerSummary summary;
  summary.layer = shape.layer;
  summary.expert_count = shape.expert_count;
  std::vector<double> masses, even, odd, counts;
  for (const ExpertTally& expert : tally) {
    summary.used += expert.count > 0;
    masses.push_back(expert.gate_mass);
    odd.push_back(expert.odd_gate_mass);
    // If two halves of the text rank the experts alike, more text would hardly change the ranks.
    even.push_back(expert.gate_mass - expert.odd_gate_mass);
    counts.push_back(static_cast<double>(expert.count));
  }
  summary.tokens_per_expert = static_cast<uint64_t>(std::llround(Quantile(counts, 0.5)));
  summary.split_half = RankCorrelation(even, odd);
  std::sort(masses.begin(), masses.end(), std::greater<>());
  const double sum = std::accumulate(masses.begin(), masses.end(), 0.0);
  if (sum <= 0) return summary;
  const auto quarter = masses.begin() + static_cast<ptrdiff_t>((masses.size() + 3) / 4);
  summary.top_quarter_share = std::accumulate(masses.begin(), quarter, 0.0) / sum;
  summary.largest_share = masses.front() / sum;
  return summary;
}

std::vector<std::vector<float>> PeaksOf(const TotalTally& total) {
  std::vector<std::vector<float>> peaks;
  for (const LayerTally& layer : total.layers) {
    std::vector<float>& of_layer = peaks.emplace_back();
    for (const ExpertTally& expert : layer) of_layer.push_back(expert.peak);
  }
  return peaks;
}

std::vector<BucketSummary> SummarizeBuckets(const std::vector<SessionTally>& sessions) {
  std::vector<BucketSummary> buckets;
  for (const SessionTally& session : sessions) {
    auto bucket = std::find_if(buckets.begin(), buckets.end(), [&](const BucketSummary& other) {
      return other.bucket == session.bucket;
    });
    if (bucket == buckets.end()) bucket = buckets.insert(bucket, {session.bucket});
    ++bucket->sessions;
    bucket->prefill_tokens += session.phases[0].tokens;
    bucket->decode_tokens += session.phases[1].tokens;
  }
  return buckets;
}

}  // namespace

std::vector<SuperExpert> FindSuperExperts(const std::vector<MoeLayerShape>& layers,
                                          const std::vector<std::vector<float>>& peaks) {
  std::vector<double> all;
  for (const std::vector<float>& layer : peaks) all.insert(all.end(), layer.begin(), layer.end());
  std::vector<SuperExpert> found;
  if (all.size() < kLeastPeaks) return found;
  std::sort(all.begin(), all.end());
  const double least = std::max(SortedQuantile(all, kPeakQuantile), all.back() / kLargestOverPeak);
  // The last block has experts in every family, so its number gives the number of blocks.
  const uint64_t blocks = uint64_t{layers.back().layer} + 1;
  for (size_t i = 0; i < peaks.size(); ++i) {
    const uint32_t layer = layers[i].layer;
    if (uint64_t{layer} * 4 >= blocks * 3) continue;
    for (uint32_t id = 0; id < peaks[i].size(); ++id) {
      const float peak = peaks[i][id];
      if (double{peak} > least) found.push_back({layer, id, peak});
    }
  }
  return found;
}

bool StatisticsSummary::stable() const {
  return std::all_of(layers.begin(), layers.end(), [](const LayerSummary& layer) {
    return layer.split_half && *layer.split_half > kStableSplitHalf;
  });
}

StatisticsSummary Summarize(const Statistics& statistics) {
  const TotalTally total = AddUp(statistics);
  StatisticsSummary summary;
  for (size_t i = 0; i < total.layers.size(); ++i) {
    summary.layers.push_back(SummarizeLayer(statistics.model.layers[i], total.layers[i]));
    summary.expert_count += total.layers[i].size();
  }
  summary.super_experts = FindSuperExperts(statistics.model.layers, PeaksOf(total));
  summary.buckets = SummarizeBuckets(statistics.sessions);
  return summary;
}

}  // namespace moepack
