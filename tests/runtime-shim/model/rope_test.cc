#include "runtime-shim/model/rope.h"

#include <gtest/gtest.h>

#include <cmath>

namespace moepack::runtime {
namespace {

RopeSpec Plain(uint32_t dims, float base) {
  RopeSpec rope;
  rope.dims = dims;
  rope.base = base;
  rope.original_context = 4096;
  return rope;
}

TEST(Rope, RotatesPairsByPowersOfTheBase) {
  const std::vector<double> turns = PairTurns(Plain(8, 10000), {});
  ASSERT_EQ(turns.size(), 4u);
  EXPECT_DOUBLE_EQ(turns[0], 1);
  EXPECT_NEAR(turns[1], 0.1, 1e-12);
  EXPECT_NEAR(turns[3], 0.001, 1e-12);
}

TEST(Rope, LinearScalingSlowsEveryPair) {
  RopeSpec rope = Plain(8, 10000);
  rope.frequency_scale = 0.25f;
  const std::vector<double> turns = PairTurns(rope, {});
  EXPECT_DOUBLE_EQ(turns[0], 0.25);
  EXPECT_NEAR(turns[3], 0.00025, 1e-12);
}

TEST(Rope, DividesByTheFactors) {
  const std::vector<float> factors = {1, 2, 4, 8};
  const std::vector<double> turns = PairTurns(Plain(8, 10000), factors);
  EXPECT_DOUBLE_EQ(turns[0], 1);
  EXPECT_NEAR(turns[1], 0.05, 1e-12);
  EXPECT_NEAR(turns[3], 0.000125, 1e-12);
}

// dims 64, base 10000, original context 4096: the ramp goes from
// floor(64 ln(4096 / (32 * 2 pi)) / (2 ln 10000)) = floor(10.47) = 10 to
// ceil(64 ln(4096 / (2 pi)) / (2 ln 10000)) = ceil(22.51) = 23.
TEST(Rope, YarnKeepsFastPairsAndStretchesSlowOnes) {
  RopeSpec rope = Plain(64, 10000);
  rope.frequency_scale = 0.1f;
  rope.yarn_mix = 1;
  const std::vector<double> plain = PairTurns(Plain(64, 10000), {});
  const std::vector<double> turns = PairTurns(rope, {});
  EXPECT_DOUBLE_EQ(turns[10], plain[10]);
  EXPECT_LT(turns[11], plain[11]);
  EXPECT_GT(turns[22], plain[22] * 0.11);
  EXPECT_NEAR(turns[23] / plain[23], 0.1, 1e-7);
  EXPECT_NEAR(turns[31] / plain[31], 0.1, 1e-7);
  // One step of thirteen down the ramp.
  EXPECT_NEAR(turns[11] / plain[11], 12 / 13.0 + 0.1 / 13, 1e-7);
}

TEST(Rope, TablesHoldCosinesThenSinesTimesTheFactor) {
  RopeSpec rope = Plain(4, 100);
  rope.attention_factor = 2;
  const std::vector<double> turns = PairTurns(rope, {});  // 1, 0.1
  std::vector<float> table(8);
  FillTurns(rope, turns, 5, table);
  EXPECT_FLOAT_EQ(table[0], static_cast<float>(2 * std::cos(5.0)));
  EXPECT_FLOAT_EQ(table[1], static_cast<float>(2 * std::cos(0.5)));
  EXPECT_FLOAT_EQ(table[2], static_cast<float>(2 * std::sin(5.0)));
  EXPECT_FLOAT_EQ(table[7], static_cast<float>(2 * std::sin(0.6)));
}

}  // namespace
}  // namespace moepack::runtime
