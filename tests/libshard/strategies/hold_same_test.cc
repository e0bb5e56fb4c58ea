#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/strategies/strategy.h"
#include "tests/libshard/strategies/planted.h"

namespace moepack {
namespace {

using testing::ElementsAre;

TEST(HoldSame, GivesEveryGroupTheMostUsedExpertsOfEachLayer) {
  const ExpertScores scores =
      ScoresOf({{0, 4, 1}, {1, 3, 1}}, {{5, 1, 3, 1, 0, 0, 2}, {0, 2, 6, 2, 1, 0, 1}});
  StrategyInput input = InputOf(scores, 2, 2);
  const HeldSets held = kHoldSame.hold(input).value();
  EXPECT_EQ(held[0], held[1]);
  EXPECT_THAT(held[0], ElementsAre(ElementsAre(0, 2), ElementsAre(0, 2)));
  input.rooms[1] = {3, 1};
  input.pinned[0] = {3};
  const HeldSets differing = kHoldSame.hold(input).value();
  EXPECT_THAT(differing[0], ElementsAre(ElementsAre(2, 3), ElementsAre(0, 2)));
  EXPECT_THAT(differing[1], ElementsAre(ElementsAre(0, 2, 3), ElementsAre(2)));
}

// All sessions have the same weight, however long they are.
TEST(HoldSame, WeightsLongAndShortSessionsEqually) {
  const ExpertScores scores = ScoresOf({{0, 3, 1}}, {{9000, 1000, 0}, {0, 3, 7}, {0, 3, 7}});
  EXPECT_THAT(kHoldSame.hold(InputOf(scores, 1, 1)).value()[0][0], ElementsAre(2));
}

}  // namespace
}  // namespace moepack
