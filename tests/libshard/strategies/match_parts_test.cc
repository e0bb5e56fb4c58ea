#include "libshard/strategies/match_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/libshard/strategies/planted.h"

namespace moepack {
namespace {

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
