#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "libshard/strategies/strategy.h"
#include "tests/libshard/strategies/planted.h"

namespace moepack {
namespace {

// Pairs of a layer of eight: even and odd ids are each chosen together.
ExpertScores WithPairs() {
  ExpertScores scores = ScoresOf({{0, 8, 2}}, {{8, 7, 6, 5, 4, 3, 2, 1}});
  scores.co_selection = {std::vector<uint64_t>(PairCount(8))};
  for (uint32_t i = 0; i < 8; ++i) {
    for (uint32_t j = i + 1; j < 8; ++j)
      scores.co_selection[0][PairIndex(i, j, 8)] = (i % 2 == j % 2) ? 50 : 3;
  }
  return scores;
}

TEST(HoldTogether, KeepsExpertsThatAreChosenTogether) {
  const ExpertScores scores = WithPairs();
  const HeldSets held = kHoldTogether.hold(InputOf(scores, 2, 4)).value();
  EXPECT_EQ(held[0][0], (ExpertIds{0, 2, 4, 6}));
  EXPECT_EQ(held[1][0], (ExpertIds{1, 3, 5, 7}));
}

TEST(HoldTogether, FillsAGroupWithTheExpertsChosenMostWithItsOwn) {
  ExpertScores scores = WithPairs();
  for (uint32_t even = 0; even < 8; even += 2)
    scores.co_selection[0][PairIndex(std::min(even, 7u), 7, 8)] = 20;
  const HeldSets held = kHoldTogether.hold(InputOf(scores, 2, 5)).value();
  EXPECT_EQ(held[0][0], (ExpertIds{0, 2, 4, 6, 7}));
  EXPECT_EQ(held[1][0].size(), 5u);
}

TEST(HoldTogether, PinsAreInEveryGroupAndBarredExpertsInNone) {
  const ExpertScores scores = WithPairs();
  StrategyInput input = InputOf(scores, 2, 4);
  input.pinned[0] = {1};
  input.barred[0] = {0};
  const HeldSets held = kHoldTogether.hold(input).value();
  for (const auto& group : held) {
    EXPECT_EQ(group[0].size(), 4u);
    EXPECT_TRUE(Contains(group[0], 1));
    EXPECT_FALSE(Contains(group[0], 0));
  }
  EXPECT_EQ(Union(held[0][0], held[1][0]).size(), 7u);
}

TEST(HoldTogether, LeavesOutTheLeastUsedExpertsIfNoGroupHasRoom) {
  const ExpertScores scores = WithPairs();
  const HeldSets held = kHoldTogether.hold(InputOf(scores, 2, 2)).value();
  EXPECT_EQ(held[0][0], (ExpertIds{0, 2}));
  EXPECT_EQ(held[1][0], (ExpertIds{1, 3}));
}

TEST(HoldTogether, RequiresPairs) {
  ExpertScores scores = WithPairs();
  scores.co_selection.clear();
  const auto none = kHoldTogether.hold(InputOf(scores, 2, 4));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kInvalidArgument);
  EXPECT_EQ(
      none.error().message,
      "statistics: layer 0: pairs of experts that were chosen together: expected 28, found 0");
  scores.co_selection = {std::vector<uint64_t>(3)};
  const auto short_list = kHoldTogether.hold(InputOf(scores, 2, 4));
  ASSERT_FALSE(short_list);
  EXPECT_EQ(
      short_list.error().message,
      "statistics: layer 0: pairs of experts that were chosen together: expected 28, found 3");
}

}  // namespace
}  // namespace moepack
