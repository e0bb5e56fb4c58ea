#include "runtime-shim/experiment/estimate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace moepack::runtime {
namespace {

TEST(Estimate, GivesTheErrorOfTheMeanForEqualSessions) {
  const std::vector<Sample> samples = {{1, 10}, {2, 10}, {4, 10}, {5, 10}};
  const Estimate estimate = EstimateMean(samples);
  EXPECT_DOUBLE_EQ(estimate.mean, 3);
  // The sample deviation of 1, 2, 4, 5 over the root of 4.
  EXPECT_NEAR(estimate.error, std::sqrt(10.0 / 3) / 2, 1e-12);
}

TEST(Estimate, WeightsSessionsByTheirLength) {
  const std::vector<Sample> samples = {{1, 30}, {3, 10}};
  const Estimate estimate = EstimateMean(samples);
  EXPECT_DOUBLE_EQ(estimate.mean, 1.5);
  // sqrt(2 (15^2 + 15^2)) / 40
  EXPECT_NEAR(estimate.error, 0.75, 1e-12);
}

TEST(Estimate, HasNoErrorForOneSession) {
  EXPECT_EQ(EstimateMean({}).mean, 0);
  const std::vector<Sample> one = {{7, 3}};
  EXPECT_EQ(EstimateMean(one).mean, 7);
  EXPECT_EQ(EstimateMean(one).error, 0);
  EXPECT_TRUE(std::isinf(IntervalFactor(1, 1)));
}

// Quantiles of Student's t from tables: two-sided 5 %, and for two looks 2.5 %.
TEST(IntervalFactor, IsStudentsQuantile) {
  EXPECT_NEAR(IntervalFactor(1, 2), 12.706, 1e-3);
  EXPECT_NEAR(IntervalFactor(1, 3), 4.303, 1e-3);
  EXPECT_NEAR(IntervalFactor(1, 4), 3.182, 1e-3);
  EXPECT_NEAR(IntervalFactor(1, 11), 2.228, 1e-3);
  EXPECT_NEAR(IntervalFactor(1, 31), 2.042, 1e-3);
  EXPECT_NEAR(IntervalFactor(2, 11), 2.634, 1e-3);
  EXPECT_NEAR(IntervalFactor(1, 1000001), 1.960, 1e-3);
}

TEST(IntervalFactor, GrowsWithTheNumberOfLooks) {
  for (uint32_t looks = 2; looks < 10; ++looks)
    EXPECT_GT(IntervalFactor(looks, 20), IntervalFactor(looks - 1, 20));
}

}  // namespace
}  // namespace moepack::runtime
