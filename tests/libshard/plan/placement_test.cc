#include "libshard/plan/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/libshard/plan/placement_sample.h"

namespace moepack {
namespace {

using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::Optional;

PlacementAnswer AnswerFor(const std::vector<uint32_t>& tokens) {
  return Place(SampleTable(), tokens);
}

TEST(Placement, AddsUpTheScoresOfTheFirstTokens) {
  // 70000 comes after the prefix of four tokens, and 5 has no row.
  const PlacementAnswer answer = AnswerFor({3, 3, 200, 5, 70000});
  EXPECT_THAT(answer.scores, ElementsAre(Optional(4.25), Eq(std::nullopt), Optional(-4.25)));
  EXPECT_EQ(answer.best, 0u);
  EXPECT_EQ(answer.second, 2u);
  EXPECT_EQ(answer.margin, 8.5);
  EXPECT_TRUE(answer.sure);
  EXPECT_EQ(answer.tokens, 4u);
  EXPECT_EQ(answer.known_share, 0.75);
}

TEST(Placement, IsNotSureIfTheLeadIsBelowTheMargin) {
  const PlacementAnswer answer = AnswerFor({200, 200});
  EXPECT_EQ(answer.best, 0u);
  EXPECT_EQ(answer.margin, 1);
  EXPECT_TRUE(answer.sure);
  EXPECT_FALSE(AnswerFor({200}).sure);
}

TEST(Placement, ChoosesTheLowestGroupInATieAndIsNotSure) {
  const PlacementAnswer answer = AnswerFor({3, 4, 4});
  EXPECT_EQ(answer.best, 0u);
  EXPECT_EQ(answer.second, 2u);
  EXPECT_EQ(answer.margin, 0);
  EXPECT_FALSE(answer.sure);
}

TEST(Placement, IgnoresTokensWithoutARow) {
  PlacementTable table = SampleTable();
  table.margin = 0;
  const PlacementAnswer answer = Place(table, std::vector<uint32_t>{5, 6, 1000});
  EXPECT_THAT(answer.scores, ElementsAre(Optional(0.0), Eq(std::nullopt), Optional(0.0)));
  EXPECT_EQ(answer.margin, 0);
  EXPECT_EQ(answer.known_share, 0);
  EXPECT_FALSE(answer.sure);
}

TEST(Placement, IsSureOnlyIfHalfOfTheTokensHaveARow) {
  const PlacementAnswer few = AnswerFor({70000, 5, 6});
  EXPECT_EQ(few.best, 2u);
  EXPECT_EQ(few.margin, 63.5);
  EXPECT_FALSE(few.sure);
  EXPECT_TRUE(AnswerFor({70000, 5}).sure);
}

TEST(Placement, IsNotSureWithoutTokens) {
  PlacementTable table = SampleTable();
  table.margin = 0;
  const PlacementAnswer answer = Place(table, {});
  EXPECT_FALSE(answer.sure);
  EXPECT_EQ(answer.tokens, 0u);
  EXPECT_EQ(answer.known_share, 0);
}

TEST(Placement, NeverChoosesAGroupWithoutSessions) {
  PlacementTable table = SampleTable();
  for (size_t row = 0; row < 4; ++row) table.tokens.scores[row * 3 + 1] = 127;
  const PlacementAnswer answer = Place(table, std::vector<uint32_t>{3, 4});
  EXPECT_THAT(answer.scores, ElementsAre(Optional(1.0), Eq(std::nullopt), Optional(-1.0)));
  EXPECT_EQ(answer.best, 0u);
  EXPECT_EQ(answer.second, 2u);
  EXPECT_EQ(answer.margin, 2);
}

TEST(Placement, TheFixedLogarithmIsTheLogarithm) {
  for (double x = 1e-12; x < 1e12; x *= 1.7) {
    EXPECT_NEAR(FixedLog(x), std::log(x), 1e-15 * std::max(1.0, std::abs(std::log(x)))) << x;
  }
  EXPECT_EQ(FixedLog(1), 0);
}

}  // namespace
}  // namespace moepack
