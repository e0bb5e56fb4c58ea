#include "libshard/strategies/parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "libshard/strategies/split_mix.h"
#include "tests/libshard/strategies/planted.h"

namespace moepack {
namespace {

using testing::ElementsAre;

TEST(CutBalanced, KeepsHeavyPairsTogether) {
  PairWeights weights(6);  // 0-3, 1-4, 2-5 belong together, with light pairs between
  for (size_t a = 0; a < 6; ++a) {
    for (size_t b = 0; b < a; ++b) weights.Set(a, b, a == b + 3 ? 100 : 1);
  }
  const auto part = CutBalanced(weights, {2, 2, 2}, 4, 0);
  EXPECT_THAT(part, ElementsAre(0, 1, 2, 0, 1, 2)) << "parts are numbered by their lowest node";
  EXPECT_EQ(WeightInside(weights, part), 300);
}

TEST(CutBalanced, GivesEveryPartItsSize) {
  const auto part = CutBalanced(PairWeights(7), {4, 0, 3}, 2, 0);
  EXPECT_EQ(std::count(part.begin(), part.end(), 0u), 4);
  EXPECT_EQ(std::count(part.begin(), part.end(), 2u), 3);
  EXPECT_TRUE(CutBalanced(PairWeights(0), {0, 0}, 2, 0).empty());
}

// Against all 35 ways to cut eight nodes in two halves.
TEST(CutBalanced, FindsTheOptimumOfSmallGraphs) {
  SplitMix64 random(5);
  for (int round = 0; round < 100; ++round) {
    PairWeights weights(8);
    for (size_t a = 0; a < 8; ++a) {
      for (size_t b = 0; b < a; ++b) weights.Set(a, b, static_cast<int64_t>(random.Below(1000)));
    }
    int64_t best = 0;
    for (uint32_t mask = 0; mask < 128; ++mask) {
      std::vector<uint32_t> part(8);
      for (uint32_t node = 0; node < 8; ++node) part[node] = mask >> node & 1;
      if (std::count(part.begin(), part.end(), 1u) == 4)
        best = std::max(best, WeightInside(weights, part));
    }
    EXPECT_EQ(WeightInside(weights, CutBalanced(weights, {4, 4}, 24, 0)), best) << round;
  }
}

using Parts = std::vector<std::vector<ExpertIds>>;

// Two kinds of sessions: one uses experts 0 and 1 of layer 0 and 2 and 3 of layer 1, the other the
// rest.
ExpertScores Crossed() {
  return ScoresOf({{0, 4, 1}, {1, 4, 1}}, {{5, 5, 1, 1, 1, 1, 5, 5},
                                           {6, 5, 1, 0, 1, 1, 4, 5},
                                           {1, 1, 5, 5, 5, 5, 1, 1},
                                           {1, 1, 6, 5, 5, 4, 0, 1}});
}

TEST(MatchParts, CombinesPartsUsedByTheSameSessions) {
  const ExpertScores scores = Crossed();
  const SessionShares shares(scores, {0, 1, 2, 3});
  Parts parts = {{{0, 1}, {2, 3}}, {{0, 1}, {2, 3}}};
  ASSERT_TRUE(MatchParts(shares, parts));
  EXPECT_EQ(parts, (Parts{{{0, 1}, {2, 3}}, {{2, 3}, {0, 1}}}));
}

TEST(MatchParts, LeavesPartsOfDifferentSizeWhereTheyAre) {
  const ExpertScores scores = Crossed();
  const SessionShares shares(scores, {0, 1, 2, 3});
  const Parts before = {{{0, 1}, {2, 3}}, {{0}, {2, 3}}};
  Parts parts = before;
  ASSERT_TRUE(MatchParts(shares, parts));
  EXPECT_EQ(parts, before);
}

TEST(MatchParts, ChangesNothingWithFewerSessionsThanGroups) {
  const ExpertScores scores = Crossed();
  const SessionShares shares(scores, {0});
  const Parts before = {{{0, 1}, {2, 3}}, {{0, 1}, {2, 3}}};
  Parts parts = before;
  ASSERT_TRUE(MatchParts(shares, parts));
  EXPECT_EQ(parts, before);
}

}  // namespace

}  // namespace moepack
