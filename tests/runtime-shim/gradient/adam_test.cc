#include "runtime-shim/gradient/adam.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace moepack::runtime {
namespace {

TEST(Adam, FirstStepMovesEachValueByTheRateAgainstItsGradient) {
  std::vector<float> values = {1, 2, 3};
  Adam adam(values.size());
  adam.Step(0.25, std::vector<double>{1e-3, -50, 0}, values);
  EXPECT_NEAR(values[0], 0.75, 1e-6);
  EXPECT_NEAR(values[1], 2.25, 1e-6);
  EXPECT_EQ(values[2], 3);
}

// The means of the paper's algorithm 1, by hand: after two steps the first moment is 0.8 * 0.2 * a
// + 0.2 * b and the second 0.9 * 0.1 * a^2 + 0.1 * b^2, each divided by 1 - beta^2.
TEST(Adam, SecondStepUsesBothGradients) {
  constexpr double kA = 2, kB = -1, kRate = 0.5;
  std::vector<float> values = {0};
  Adam adam(1);
  adam.Step(kRate, std::vector<double>{kA}, values);
  adam.Step(kRate, std::vector<double>{kB}, values);
  const double first = (0.16 * kA + 0.2 * kB) / (1 - 0.64);
  const double second = (0.09 * kA * kA + 0.1 * kB * kB) / (1 - 0.81);
  EXPECT_NEAR(values[0], -kRate - kRate * first / std::sqrt(second), 1e-5);
}

TEST(Adam, KeepsValuesFinite) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<float> values = {1, 2, 3};
  Adam adam(values.size());
  for (int step = 0; step < 3; ++step)
    adam.Step(0.25, std::vector<double>{kInfinity, std::nan(""), -1e300}, values);
  EXPECT_NEAR(values[0], 0.25, 1e-5);
  EXPECT_EQ(values[1], 2);
  EXPECT_NEAR(values[2], 3.75, 1e-5);
}

TEST(Adam, FindsTheMinimumOfAParabola) {
  std::vector<float> values = {10};
  Adam adam(1);
  for (int step = 0; step < 500; ++step)
    adam.Step(0.1 * (1 - step / 500.0), std::vector<double>{2 * (values[0] - 4.0)}, values);
  EXPECT_NEAR(values[0], 4, 0.05);
}

TEST(Adam, BitsDoNotDependOnThreads) {
  constexpr size_t kCount = 100'000;
  std::vector<float> one(kCount, 1), four(kCount, 1);
  std::vector<double> gradient(kCount);
  for (size_t i = 0; i < kCount; ++i) gradient[i] = std::sin(static_cast<double>(i));
  Adam(kCount, 1).Step(0.1, gradient, one);
  Adam(kCount, 4).Step(0.1, gradient, four);
  EXPECT_EQ(one, four);
}

TEST(Adam, MovesVectorsAsItMovesSingleValues) {
  constexpr size_t kCount = 133;  // more than whole vectors
  std::vector<float> slopes(kCount), firsts(kCount), seconds(kCount), values(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    slopes[i] = static_cast<float>(std::sin(static_cast<double>(i)) * std::exp(i % 40) - 3);
    firsts[i] = static_cast<float>(std::cos(static_cast<double>(i)));
    seconds[i] = static_cast<float>(i);
    values[i] = 1;
  }
  slopes[3] = std::nanf("");
  slopes[4] = -std::numeric_limits<float>::infinity();
  std::vector<float> firsts_alone = firsts, seconds_alone = seconds, alone = values;
  const AdamStep step = NthStep(0.1, 3);
  MoveValues({slopes.data(), firsts.data(), seconds.data(), values.data(), step}, kCount);
  MoveValuesRef({slopes.data(), firsts_alone.data(), seconds_alone.data(), alone.data(), step},
                kCount);
  EXPECT_EQ(firsts, firsts_alone);
  EXPECT_EQ(seconds, seconds_alone);
  EXPECT_EQ(values, alone);
}

TEST(RootMeanSquareOf, ValuesIsTheirSize) {
  EXPECT_DOUBLE_EQ(RootMeanSquare(std::vector<float>{3, -4}), std::sqrt(12.5));
  EXPECT_EQ(RootMeanSquare({}), 0);
}

TEST(BatchesOf, FewRowsAreAllOfThemInOrder) {
  Batches few(3, 3);
  for (int round = 0; round < 2; ++round) EXPECT_EQ(few.Next(), (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_TRUE(Batches(0, 3).Next().empty());
}

TEST(BatchesOf, RowsHaveEachOfThemOnceInARoundAndOtherOrders) {
  Batches batches(10, 4), again(10, 4);
  std::vector<uint32_t> rows;
  for (int i = 0; i < 5; ++i) {
    const std::vector<uint32_t> batch = batches.Next();
    EXPECT_EQ(batch.size(), 4u);
    EXPECT_EQ(again.Next(), batch);
    rows.insert(rows.end(), batch.begin(), batch.end());
  }
  std::vector<uint32_t> first(rows.begin(), rows.begin() + 10),
      second(rows.begin() + 10, rows.end());
  EXPECT_NE(first, second);
  std::vector<uint32_t> all(10);
  std::iota(all.begin(), all.end(), 0u);
  for (std::vector<uint32_t>* round : {&first, &second}) {
    EXPECT_FALSE(std::is_sorted(round->begin(), round->end()));
    std::sort(round->begin(), round->end());
    EXPECT_EQ(*round, all);
  }
}

}  // namespace
}  // namespace moepack::runtime
