#include "libshard/strategies/session_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/libshard/strategies/planted.h"

namespace moepack {
namespace {

using testing::ElementsAre;

TEST(SessionShares, AddUpToOneInEveryLayer) {
  const ExpertScores scores =
      ScoresOf({{1, 2, 1}, {4, 3, 1}}, {{1, 3, 0, 0, 8}, {500, 1500, 0, 0, 0}});
  const SessionShares shares(scores, {1, 0});
  EXPECT_EQ(shares.layer_count(), 2u);
  EXPECT_EQ(shares.offset(1), 2u);
  EXPECT_EQ(shares.expert_count(1), 3u);
  EXPECT_EQ(shares.width(), 5u);
  EXPECT_EQ(shares.PerScore(0, 0), 1.0 / 2000);
  EXPECT_EQ(shares.PerScore(0, 1), 0) << "no score in the layer";
  EXPECT_EQ(shares.LayersSeen(0), 1u);
  EXPECT_EQ(shares.LayersSeen(1), 2u);
  EXPECT_THAT(shares.Scores(1, 1), ElementsAre(0, 0, 8));
  EXPECT_THAT(SumShares(shares, {0, 1}, 2).value(),
              ElementsAre(ElementsAre(0.25, 0.75, 0, 0, 0), ElementsAre(0.25, 0.75, 0, 0, 1)));
}

TEST(SessionShares, CaptureIsTheMeanOverTheLayersThatASessionReached) {
  const ExpertScores scores =
      ScoresOf({{0, 2, 1}, {1, 2, 1}}, {{1, 3, 1, 1}, {1, 1, 0, 0}, {0, 0, 0, 0}});
  const SessionShares shares(scores, {0, 1, 2});
  const HeldSets held = {{{0}, {1}}, {{1}, {0, 1}}};
  EXPECT_THAT(CaptureBySessionAndGroup(shares, held).value(),
              ElementsAre(0.375, 0.875, 0.5, 0.5, 0, 0));
}

TEST(SessionShares, BestExpertsBreakTiesByTheOtherValueAndThenById) {
  const std::vector<double> values = {2, 1, 1, 1, 3}, other = {0, 0, 5, 0, 0};
  EXPECT_THAT(BestExperts(values, other, 3, {}, {}), ElementsAre(0, 2, 4));
  EXPECT_THAT(BestExperts(values, other, 4, {}, {}), ElementsAre(0, 1, 2, 4));
  EXPECT_THAT(BestExperts(values, other, 2, {3}, {4}), ElementsAre(0, 3));
  EXPECT_THAT(BestExperts(values, other, 9, {3}, {4}), ElementsAre(0, 1, 2, 3));
}

TEST(SessionShares, TheCanonicalOrderDoesNotDependOnTheInputOrder) {
  ExpertScores scores = ScoresOf({{0, 1, 1}}, {{3}, {1}, {2}});
  scores.sessions[0].name = scores.sessions[2].name = "same";
  scores.sessions[1].name = "z";
  EXPECT_THAT(InCanonicalOrder(scores, {0, 1, 2}), ElementsAre(2, 0, 1));
  EXPECT_THAT(InCanonicalOrder(scores, {1, 2, 0}), ElementsAre(2, 0, 1));
}

}  // namespace
}  // namespace moepack
