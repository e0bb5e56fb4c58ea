#include "libshard/stats/quantile.h"

#include <gtest/gtest.h>

#include <cmath>

namespace moepack {
namespace {

TEST(Quantile, LiesBetweenTheNearestRanks) {
  const std::vector<double> values = {4, 1, 3, 2};
  EXPECT_DOUBLE_EQ(Quantile(values, 0), 1);
  EXPECT_DOUBLE_EQ(Quantile(values, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(Quantile(values, 0.9), 3.7);
  EXPECT_DOUBLE_EQ(Quantile(values, 1), 4);
  EXPECT_EQ(Quantile({}, 0.5), 0);
  EXPECT_EQ(Quantile({7}, 0.99), 7);
}

TEST(Quantile, ComputesTheMeanAndItsStandardError) {
  const std::vector<double> values = {2, 4, 4, 4, 5, 5, 7, 9};
  EXPECT_DOUBLE_EQ(Mean(values), 5);
  EXPECT_DOUBLE_EQ(StandardError(values), std::sqrt(32.0 / 7 / 8));
  EXPECT_EQ(Mean({}), 0);
  EXPECT_EQ(StandardError(std::vector<double>{3}), 0);
}

TEST(RankCorrelation, DependsOnlyOnOrder) {
  const std::vector<double> a = {1, 2, 3, 4, 5};
  EXPECT_DOUBLE_EQ(*RankCorrelation(a, std::vector<double>{1, 8, 27, 64, 1000}), 1);
  EXPECT_DOUBLE_EQ(*RankCorrelation(a, std::vector<double>{5, 4, 3, 2, 1}), -1);
  // 1 - 6 sum(d^2) / (n (n^2 - 1)) with d = 1, 1, 1, 1, 0
  EXPECT_DOUBLE_EQ(*RankCorrelation(a, std::vector<double>{2, 1, 4, 3, 5}), 0.8);
}

TEST(RankCorrelation, EqualValuesShareTheirRanks) {
  // Ranks 0, 1.5, 1.5, 3 against 0, 1, 2, 3: 4.5 / sqrt(4.5 * 5).
  EXPECT_DOUBLE_EQ(
      *RankCorrelation(std::vector<double>{1, 2, 2, 3}, std::vector<double>{1, 2, 3, 4}),
      4.5 / std::sqrt(22.5));
}

TEST(RankCorrelation, IsUndefinedWithoutVariation) {
  EXPECT_FALSE(RankCorrelation(std::vector<double>{1, 1}, std::vector<double>{1, 2}));
  EXPECT_FALSE(RankCorrelation(std::vector<double>{1}, std::vector<double>{1}));
}

}  // namespace
}  // namespace moepack
