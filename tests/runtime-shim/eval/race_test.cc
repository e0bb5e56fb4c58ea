#include "runtime-shim/eval/race.h"

#include <gtest/gtest.h>

namespace moepack::runtime {
namespace {

TEST(Race, TheLikeliestGroupWinsByItsMarginPerToken) {
  const std::vector<std::vector<double>> groups = {{-1, -2, 0}, {-1, -1, -9}, {-3, -3, 0}};
  const RaceResult race = RunRace(groups, 2);
  EXPECT_EQ(race.winner, 1u);
  EXPECT_EQ(race.tokens, 2u);
  EXPECT_DOUBLE_EQ(race.margin, 0.5);
}

TEST(Race, EndsWithTheSession) {
  const RaceResult race = RunRace(std::vector<std::vector<double>>{{-1, -2, 0}, {-1, -1, -9}}, 32);
  EXPECT_EQ(race.winner, 0u);
  EXPECT_EQ(race.tokens, 3u);
  EXPECT_DOUBLE_EQ(race.margin, 8.0 / 3);
}

TEST(Race, TheFirstGroupWinsATie) {
  const RaceResult race = RunRace(std::vector<std::vector<double>>{{-1}, {-1}}, 1);
  EXPECT_EQ(race.winner, 0u);
  EXPECT_EQ(race.margin, 0);
}

TEST(Race, OneGroupOrNoTokensHaveNoMargin) {
  EXPECT_EQ(RunRace(std::vector<std::vector<double>>{{-1}}, 1).margin, 0);
  EXPECT_EQ(RunRace(std::vector<std::vector<double>>{{}, {}}, 8).margin, 0);
}

}  // namespace
}  // namespace moepack::runtime
