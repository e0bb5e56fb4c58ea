#include "libshard/plan/held_out.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/libshard/strategies/planted.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::set<std::string> Names(const ExpertScores& scores, const std::vector<size_t>& places) {
  std::set<std::string> names;
  for (const size_t place : places) names.insert(scores.sessions[place].name);
  return names;
}

TEST(SplitSessions, HoldsOutAFifthOfEveryBucket) {
  const ExpertScores scores = Planted{.kinds = 3, .sessions = 60}.Make();
  const SessionSplit split = SplitSessions(scores, 200);
  EXPECT_EQ(split.training.size(), 48u);
  std::map<std::string, int> buckets;
  for (const size_t place : split.held_out) ++buckets[scores.sessions[place].bucket];
  EXPECT_THAT(buckets,
              ElementsAre(std::pair("kind0", 4), std::pair("kind1", 4), std::pair("kind2", 4)));
  EXPECT_TRUE(std::is_sorted(split.training.begin(), split.training.end()));
}

TEST(SplitSessions, DependsOnNamesAndNotOnOrder) {
  const ExpertScores scores = Planted{.sessions = 31}.Make();
  ExpertScores reversed = scores;
  std::reverse(reversed.sessions.begin(), reversed.sessions.end());
  EXPECT_EQ(Names(scores, SplitSessions(scores, 200).held_out),
            Names(reversed, SplitSessions(reversed, 200).held_out));
}

TEST(SplitSessions, ASingleSessionIsNeverHeldOut) {
  const ExpertScores scores = Planted{.sessions = 1}.Make();
  EXPECT_THAT(SplitSessions(scores, 900).training, ElementsAre(0));
  EXPECT_THAT(SplitSessions(scores, 900).held_out, IsEmpty());
}

TEST(SplitSessions, HoldsOutNothingForAShareOfZero) {
  EXPECT_THAT(SplitSessions(Planted{}.Make(), 0).held_out, IsEmpty());
}

TEST(SplitSessions, LeavesSessionsWithoutScoresOutOfBothParts) {
  const ExpertScores scores = ScoresOf({{0, 2, 1}}, {{0, 0}, {1, 0}, {0, 2}});
  const SessionSplit split = SplitSessions(scores, 500);
  EXPECT_EQ(split.training.size() + split.held_out.size(), 2u);
  EXPECT_TRUE(std::find(split.training.begin(), split.training.end(), 0u) == split.training.end());
}

}  // namespace
}  // namespace moepack
