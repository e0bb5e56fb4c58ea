#include "libshard/stats/summary.h"

#include <gtest/gtest.h>

#include "tests/libshard/stats/sample.h"

namespace moepack {
namespace {

// One session over `layers` blocks of `experts`, all of them MoE.
Statistics Flat(uint32_t layers, uint32_t experts) {
  ModelIdentity model = SampleModel();
  model.layers.clear();
  for (uint32_t layer = 0; layer < layers; ++layer) model.layers.push_back({layer, experts, 1});
  Statistics statistics = EmptyStatistics(model);
  statistics.sessions.push_back({"s", "code", "cpu", "f32", {}});
  statistics.sessions[0].phases[0].layers.assign(layers, LayerTally(experts));
  return statistics;
}

std::vector<LayerTally>& Layers(Statistics& statistics) {
  return statistics.sessions[0].phases[0].layers;
}

TEST(StatisticsSummary, ShowsHowConcentratedALayerIs) {
  Statistics statistics = Flat(1, 5);
  const double masses[] = {1, 6, 0, 2, 1};
  for (size_t i = 0; i < 5; ++i) {
    Layers(statistics)[0][i].gate_mass = masses[i];
    Layers(statistics)[0][i].count = static_cast<uint64_t>(3 * masses[i]);
  }
  const LayerSummary layer = Summarize(statistics).layers[0];
  EXPECT_EQ(layer.used, 4u);
  EXPECT_DOUBLE_EQ(layer.top_quarter_share, 0.8);  // two of five: 6 and 2
  EXPECT_DOUBLE_EQ(layer.largest_share, 0.6);
  EXPECT_EQ(layer.tokens_per_expert, 3u);
}

TEST(StatisticsSummary, AMedianBetweenTwoCountsIsRounded) {
  Statistics statistics = Flat(1, 2);
  Layers(statistics)[0][0].count = 340;
  Layers(statistics)[0][1].count = 357;
  EXPECT_EQ(Summarize(statistics).layers[0].tokens_per_expert, 349u);  // of 348.5
}

TEST(StatisticsSummary, IsStableIfTheHalvesAgree) {
  Statistics statistics = Flat(2, 4);
  for (LayerTally& layer : Layers(statistics)) {
    for (uint32_t i = 0; i < 4; ++i) {
      layer[i].count = 10;
      layer[i].gate_mass = 3.0 * (i + 1);
      layer[i].odd_gate_mass = 1.0 * (i + 1);
    }
  }
  EXPECT_DOUBLE_EQ(*Summarize(statistics).layers[1].split_half, 1);
  EXPECT_TRUE(Summarize(statistics).stable());
  Layers(statistics)[1][0].odd_gate_mass = 3;  // even half: 0, 4, 6, 8; odd half: 3, 2, 3, 4
  EXPECT_LT(*Summarize(statistics).layers[1].split_half, 0.98);
  EXPECT_FALSE(Summarize(statistics).stable());
}

TEST(StatisticsSummary, IsNotStableWithoutData) {
  const StatisticsSummary summary = Summarize(Flat(1, 4));
  EXPECT_FALSE(summary.layers[0].split_half);
  EXPECT_FALSE(summary.stable());
  EXPECT_EQ(summary.layers[0].top_quarter_share, 0);
  EXPECT_TRUE(summary.super_experts.empty());
}

TEST(StatisticsSummary, FindsSuperExpertsInTheFirstThreeQuartersOfTheLayers) {
  Statistics statistics = Flat(8, 100);  // 800 peaks: the 99.5th percentile is below the fifth
  for (LayerTally& layer : Layers(statistics)) {
    for (ExpertTally& expert : layer) expert.peak = 1;
  }
  Layers(statistics)[1][68].peak = 1000;
  Layers(statistics)[5][7].peak = 101;
  Layers(statistics)[6][3].peak = 900;  // block 6 of 8 is past three quarters
  Layers(statistics)[2][2].peak = 99;   // below a tenth of the largest
  const std::vector<SuperExpert> found = Summarize(statistics).super_experts;
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].layer, 1u);
  EXPECT_EQ(found[0].expert, 68u);
  EXPECT_EQ(found[0].peak, 1000);
  EXPECT_EQ(found[1].layer, 5u);
  EXPECT_EQ(found[1].expert, 7u);
}

TEST(StatisticsSummary, FewExpertsHaveNoSuperExperts) {
  for (const uint32_t experts : {49u, 50u}) {
    Statistics statistics = Flat(4, experts);
    Layers(statistics)[0][0].peak = 1000;
    const StatisticsSummary summary = Summarize(statistics);
    EXPECT_EQ(summary.expert_count, 4 * experts);
    EXPECT_EQ(summary.super_experts.size(), experts == 50 ? 1u : 0u);
  }
}

TEST(StatisticsSummary, ALayerFullOfLargeOutputsHasNoSuperExperts) {
  Statistics statistics = Flat(4, 100);
  Layers(statistics)[0][7].peak = 50;
  EXPECT_EQ(Summarize(statistics).super_experts.size(), 1u) << "a single large output stands out";
  for (ExpertTally& expert : Layers(statistics)[0]) expert.peak = 50;
  EXPECT_TRUE(Summarize(statistics).super_experts.empty());
}

TEST(StatisticsSummary, TokensAreCountedByBucket) {
  Statistics statistics = SampleStatistics();
  statistics.sessions.push_back(statistics.sessions[0]);
  statistics.sessions[1].phases[1].tokens = 5;
  const std::vector<BucketSummary> buckets = Summarize(statistics).buckets;
  ASSERT_EQ(buckets.size(), 2u);
  EXPECT_EQ(buckets[0].bucket, "code");
  EXPECT_EQ(buckets[0].sessions, 2u);
  EXPECT_EQ(buckets[0].prefill_tokens, 600u);
  EXPECT_EQ(buckets[1].decode_tokens, 5u);
}

}  // namespace
}  // namespace moepack
