#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "libshard/strategies/session_shares.h"
#include "libshard/strategies/strategy.h"
#include "tests/libshard/strategies/planted.h"

namespace moepack {
namespace {

using testing::ElementsAre;

double SumOver(const std::vector<double>& values, const ExpertIds& ids) {
  double sum = 0;
  for (const uint32_t id : ids) sum += values[id];
  return sum;
}

TEST(HoldRanked, GivesEveryExpertToOneGroupOfEqualWeight) {
  // Sorted 9 8 7 6 5 4 3 2 sums to 44: two groups of 22.
  const ExpertScores scores = ScoresOf({{0, 8, 2}}, {{2, 9, 4, 7, 5, 8, 3, 6}});
  const HeldSets held = kHoldRanked.hold(InputOf(scores, 2, 4)).value();
  const std::vector<double> values = SumOfScores(scores);
  EXPECT_EQ(SumOver(values, held[0][0]), 22);
  EXPECT_EQ(SumOver(values, held[1][0]), 22);
  EXPECT_EQ(Union(held[0][0], held[1][0]).size(), 8u);
}

// Against every way to assign 8 experts to two groups of 4.
TEST(HoldRanked, ComesCloseToTheBestBalanceOfSmallLayers) {
  SplitMix64 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<float> row(8);
    for (float& score : row) score = static_cast<float>(1 + random.Below(100));
    const ExpertScores scores = ScoresOf({{0, 8, 2}}, {row});
    const HeldSets held = kHoldRanked.hold(InputOf(scores, 2, 4)).value();
    const std::vector<double> values = SumOfScores(scores);
    const double all = SumOver(values, {0, 1, 2, 3, 4, 5, 6, 7});
    double best = all;
    for (uint32_t mask = 0; mask < 256; ++mask) {
      double sum = 0;
      int count = 0;
      for (uint32_t id = 0; id < 8; ++id) {
        if ((mask >> id & 1) == 0) continue;
        sum += values[id];
        ++count;
      }
      if (count == 4) best = std::min(best, std::max(sum, all - sum));
    }
    const double found = std::max(SumOver(values, held[0][0]), SumOver(values, held[1][0]));
    EXPECT_LE(found, best * 1.08) << "round " << round;
  }
}

TEST(HoldRanked, FillsGroupsWithTheBestExpertsThatTheyLack) {
  const ExpertScores scores = ScoresOf({{0, 6, 2}}, {{60, 50, 40, 30, 20, 10}});
  const HeldSets held = kHoldRanked.hold(InputOf(scores, 2, 5)).value();
  for (const auto& group : held) {
    ASSERT_EQ(group[0].size(), 5u);
    EXPECT_TRUE(Contains(group[0], 0) && Contains(group[0], 1) && Contains(group[0], 2));
  }
  EXPECT_EQ(Union(held[0][0], held[1][0]).size(), 6u);
}

TEST(HoldRanked, LeavesOutTheWorstExpertsIfNoGroupHasRoom) {
  const ExpertScores scores = ScoresOf({{0, 6, 1}}, {{1, 50, 2, 30, 20, 10}});
  const HeldSets held = kHoldRanked.hold(InputOf(scores, 2, 2)).value();
  EXPECT_THAT(Union(held[0][0], held[1][0]), ElementsAre(1, 3, 4, 5));
}

TEST(HoldRanked, PinsAreInEveryGroupAndBarredExpertsInNone) {
  const ExpertScores scores = ScoresOf({{0, 6, 1}}, {{1, 50, 2, 30, 20, 10}});
  StrategyInput input = InputOf(scores, 2, 3);
  input.pinned[0] = {0};
  input.barred[0] = {1};
  const HeldSets held = kHoldRanked.hold(input).value();
  for (const auto& group : held) {
    EXPECT_EQ(group[0].size(), 3u);
    EXPECT_TRUE(Contains(group[0], 0));
    EXPECT_FALSE(Contains(group[0], 1));
  }
}

TEST(HoldRanked, EqualScoresGoInOrderOfIds) {
  const ExpertScores scores = ScoresOf({{0, 4, 1}}, {{1, 1, 1, 1}});
  const HeldSets held = kHoldRanked.hold(InputOf(scores, 2, 2)).value();
  EXPECT_THAT(held[0][0], ElementsAre(0, 2));
  EXPECT_THAT(held[1][0], ElementsAre(1, 3));
}

}  // namespace
}  // namespace moepack
