#include "runtime-shim/profile/collector.h"

#include <gtest/gtest.h>

#include "tests/libshard/stats/sample.h"

namespace moepack::runtime {
namespace {

constexpr uint32_t kBos = 99;

// A batch of layer 1 (4 experts, top 2), one selection per token.
struct Batch {
  std::vector<Selection> chosen;
  std::vector<float> norms, peaks;
  RoutedBatch View(uint32_t layer, uint32_t first) const {
    RoutedBatch batch;
    batch.layer = layer;
    batch.first_position = first;
    batch.tokens = static_cast<uint32_t>(chosen.size());
    batch.expert_count = 4;
    batch.chosen = chosen;
    batch.output_norms = norms;
    batch.output_peaks = peaks;
    return batch;
  }
};

class Collector : public ::testing::Test {
 protected:
  Collector() { collector_.StartSession("s", "code", "cpu", "f32"); }
  const PhaseTally& Tally(Phase phase) const {
    return collector_.statistics().sessions.back().phases[static_cast<size_t>(phase)];
  }
  StatisticsCollector collector_{SampleModel(), kBos};
};

TEST_F(Collector, AddsUpTheChoicesOfTokens) {
  collector_.Feeding(Phase::kPrefill, std::vector<uint32_t>{7, 8, 9});
  const Batch batch = {{{{3, 1}, {0.75f, 0.25f}}, {{0, 2}, {0.5f, 0.5f}}, {{2, 1}, {1.0f, 0.25f}}},
                       {1, 1, 2, 4, 8, 16},
                       {90, 1, 1, 3, 2, 1}};
  collector_.Observe(batch.View(1, 0));
  const PhaseTally& tally = Tally(Phase::kPrefill);
  EXPECT_EQ(tally.tokens, 2u);
  EXPECT_EQ(tally.sinks, 1u);
  EXPECT_EQ(tally.layers[0][0], (ExpertTally{1, 0.5, 0, 1, 1}));
  EXPECT_EQ(tally.layers[0][1], (ExpertTally{1, 0.25, 0, 4, 1}));
  EXPECT_EQ(tally.layers[0][2], (ExpertTally{2, 1.5, 0, 10, 3}));
  EXPECT_EQ(tally.layers[1], LayerTally(3));
}

TEST_F(Collector, CountsTheFirstPositionAndBosOnlyInPeaks) {
  collector_.Feeding(Phase::kPrefill, std::vector<uint32_t>{7, kBos});
  const Batch batch = {
      {{{3, 1}, {0.5f, 0.5f}}, {{3, 0}, {0.5f, 0.5f}}}, {1, 1, 1, 1}, {90, 1, 1, 3}};
  collector_.Observe(batch.View(1, 0));
  const PhaseTally& tally = Tally(Phase::kPrefill);
  EXPECT_EQ(tally.tokens, 0u);
  EXPECT_EQ(tally.sinks, 2u);
  EXPECT_EQ(tally.layers[0][3], (ExpertTally{0, 0, 0, 0, 90}));
  EXPECT_EQ(tally.layers[0][0], (ExpertTally{0, 0, 0, 0, 3}));
  EXPECT_EQ(collector_.statistics().co_selection[0], std::vector<uint64_t>(6));
}

TEST_F(Collector, CountsPairsInEitherOrder) {
  collector_.Feeding(Phase::kPrefill, std::vector<uint32_t>{7, 8, 9});
  const Batch batch = {{{{0, 1}, {1, 1}}, {{3, 1}, {1, 1}}, {{1, 3}, {1, 1}}},
                       {1, 1, 1, 1, 1, 1},
                       {1, 1, 1, 1, 1, 1}};
  collector_.Observe(batch.View(1, 0));
  EXPECT_EQ(collector_.statistics().co_selection[0][PairIndex(1, 3, 4)], 2u);
  EXPECT_EQ(collector_.statistics().co_selection[0][PairIndex(0, 1, 4)], 0u);
}

TEST_F(Collector, CountsDecodeSeparately) {
  collector_.Feeding(Phase::kPrefill, std::vector<uint32_t>{7});
  collector_.Feeding(Phase::kDecode, std::vector<uint32_t>{8});
  const Batch batch = {{{{0, 1}, {0.5f, 0.5f}}}, {1, 1}, {1, 1}};
  collector_.Observe(batch.View(1, 1));
  EXPECT_EQ(Tally(Phase::kPrefill).tokens, 0u);
  EXPECT_EQ(Tally(Phase::kDecode).tokens, 1u);
  EXPECT_EQ(Tally(Phase::kDecode).layers[0][0].count, 1u);
}

TEST_F(Collector, CountsPrefillTokensWithoutSinks) {
  collector_.Feeding(Phase::kPrefill, std::vector<uint32_t>{7, 9, 8, kBos, 9});
  collector_.Feeding(Phase::kPrefill, std::vector<uint32_t>{10, 9, 2});
  collector_.Feeding(Phase::kDecode, std::vector<uint32_t>{8, 8});
  EXPECT_EQ(collector_.statistics().sessions.back().token_counts,
            (TokenCounts{{2, 1}, {8, 1}, {9, 3}, {10, 1}}));
  collector_.StartSession("t", "code", "cpu", "f32");
  collector_.Feeding(Phase::kPrefill, std::vector<uint32_t>{5, 6});
  EXPECT_EQ(collector_.statistics().sessions.back().token_counts, (TokenCounts{{6, 1}}));
}

TEST_F(Collector, AssignsTheSecondRunOfTokensToTheOddHalf) {
  collector_.Feeding(Phase::kPrefill, std::vector<uint32_t>(kRunTokens + 1, 7));
  const Batch batch = {
      {{{0, 1}, {0.5f, 0.25f}}, {{0, 1}, {0.5f, 0.25f}}}, {1, 1, 1, 1}, {1, 1, 1, 1}};
  collector_.Observe(batch.View(1, kRunTokens - 1));
  EXPECT_EQ(Tally(Phase::kPrefill).layers[0][0], (ExpertTally{2, 1, 0.5, 1, 1}));
}

TEST_F(Collector, RunsContinueAcrossWindowsAndSessions) {
  collector_.Feeding(Phase::kPrefill, std::vector<uint32_t>(kRunTokens - 1, 7));
  collector_.StartSession("t", "code", "cpu", "f32");
  collector_.Feeding(Phase::kPrefill, std::vector<uint32_t>(3, 7));
  const Batch batch = {{{{0, 1}, {0.5f, 0.25f}}}, {1, 1}, {1, 1}};
  collector_.Observe(batch.View(1, 1));
  EXPECT_EQ(Tally(Phase::kPrefill).layers[0][0].odd_gate_mass, 0.5);
}

TEST_F(Collector, IgnoresLayersThatTheModelLacks) {
  collector_.Feeding(Phase::kPrefill, std::vector<uint32_t>{7, 8});
  const Batch batch = {{{{0, 1}, {0.5f, 0.25f}}}, {1, 1}, {1, 1}};
  collector_.Observe(batch.View(2, 1));
  EXPECT_EQ(Tally(Phase::kPrefill).layers[0], LayerTally(4));
}

}  // namespace
}  // namespace moepack::runtime
