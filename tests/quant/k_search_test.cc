#include "quant/search/k_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "quant/search/k_pairs.h"

namespace quant {
namespace {

using testing::Each;
using testing::ElementsAre;

constexpr std::array<float, 4> kOnes = {1, 1, 1, 1};

TEST(KSearch, FindsTheFirstLargestValueWithItsSign) {
  EXPECT_EQ(LargestByMagnitude(std::array{1.0f, -3.0f, 3.0f}), -3.0f);
  EXPECT_EQ(LargestByMagnitude(std::array{std::nanf(""), 0.5f}), 0.5f);
  EXPECT_EQ(LargestByMagnitude({}), 0.0f);
}

// 5 * sqrt(7 + 3^2) = 20.
TEST(KSearch, SmoothsImportanceByTheSpread) {
  std::array<float, 2> weights;
  WeighByImportance(std::array{3.0f, 0.0f}, std::array{5.0f, 0.0f}, 7, weights);
  EXPECT_THAT(weights, ElementsAre(20.0f, 0.0f));
}

TEST(FitSigned, FindsAScaleThatIsExact) {
  const std::array<float, 4> values = {-4, 1.5f, 0, 3.5f};
  std::array<uint8_t, 4> q;
  EXPECT_EQ(FitSigned({values, kOnes}, 8, q), 0.5f);
  EXPECT_THAT(q, ElementsAre(0, 11, 8, 15));
}

// With +4 at level -8 the scale is negative.
TEST(FitSigned, PutsTheLargestValueAtTheLowestLevel) {
  const std::array<float, 4> values = {4, -1.5f, 0, -3.5f};
  std::array<uint8_t, 4> q;
  EXPECT_EQ(FitSigned({values, kOnes}, 8, q), -0.5f);
  EXPECT_THAT(q, ElementsAre(0, 11, 8, 15));
}

TEST(FitSigned, LevelsOfAZeroGroupAreZeroAndNotTheMiddle) {
  const std::array<float, 4> values = {0, 9.9e-16f, -9.9e-16f, 0};
  std::array<uint8_t, 4> q = {1, 2, 3, 4};
  EXPECT_EQ(FitSigned({values, kOnes}, 8, q), 0.0f);
  EXPECT_THAT(q, Each(0));
}

TEST(FitSigned, IsInexactForValuesWithoutWeight) {
  const std::array<float, 4> values = {-8.3f, 2, 4, 6};
  std::array<uint8_t, 4> q;
  EXPECT_EQ(FitSigned({values, std::array{0.0f, 1.0f, 1.0f, 1.0f}}, 8, q), 1.0f);
  EXPECT_THAT(q, ElementsAre(0, 10, 12, 14));
}

TEST(FitPositive, FindsAScaleThatIsExact) {
  const std::array<float, 4> values = {0, 0.5f, 7.5f, 3};
  std::array<uint8_t, 4> q;
  EXPECT_EQ(FitPositive({values, kOnes}, 15, q), 0.5f);
  EXPECT_THAT(q, ElementsAre(0, 1, 15, 6));
}

TEST(FitPositive, UsesAScaleOfZeroForZeros) {
  const std::array<float, 4> values = {0, -1, 0, 1e-16f};
  std::array<uint8_t, 4> q = {9, 9, 9, 9};
  EXPECT_EQ(FitPositive({values, kOnes}, 15, q), 0.0f);
  EXPECT_THAT(q, Each(0));
}

// ggml keeps such levels in a byte; their meaning differs by format, see PairSearch.
TEST(FitPositive, ValuesBelowZeroWrapAround) {
  const std::array<float, 4> values = {15, -1, 7, 0};
  std::array<uint8_t, 4> q;
  FitPositive({values, std::array{1.0f, 0.0f, 1.0f, 1.0f}}, 15, q);
  EXPECT_THAT(q, ElementsAre(15, 255, 7, 0));
}

constexpr ScaleGrid kGrid = {.levels = 15, .first = -0.9f, .step = 0.05f, .last = 36};

TEST(FitScaleAndMin, FindsAScaleAndMinThatAreExact) {
  const std::array<float, 4> values = {-1, -0.5f, 2, 6.5f};
  std::array<uint8_t, 4> q;
  const ScaleAndMin fit = FitScaleAndMin({values, kOnes}, kGrid, q);
  EXPECT_EQ(fit.scale, 0.5f);
  EXPECT_EQ(fit.min, 1.0f);
  EXPECT_THAT(q, ElementsAre(0, 1, 6, 15));
}

TEST(FitScaleAndMin, UsesAMinimumOfZeroForPositiveValues) {
  const std::array<float, 4> values = {10, 11, 12, 15};
  std::array<uint8_t, 4> q;
  const ScaleAndMin fit = FitScaleAndMin({values, kOnes}, kGrid, q);
  EXPECT_EQ(fit.min, 0.0f);
  EXPECT_THAT(q, ElementsAre(10, 11, 12, 15));
}

TEST(FitScaleAndMin, EqualNegativeValuesHaveOnlyAMinimum) {
  const std::array<float, 4> values = {-2, -2, -2, -2};
  std::array<uint8_t, 4> q = {1, 1, 1, 1};
  const ScaleAndMin fit = FitScaleAndMin({values, kOnes}, kGrid, q);
  EXPECT_EQ(fit.scale, 0.0f);
  EXPECT_EQ(fit.min, 2.0f);
  EXPECT_THAT(q, Each(0));
}

TEST(Requantize, LeavesIntegersAloneWhereTheScaleIsZero) {
  std::array<uint8_t, 2> q = {7, 9};
  RequantizeSigned(std::array{1.0f, 2.0f}, -0.0f, 32, q);
  RequantizeWithMin(std::array{1.0f, 2.0f}, {0, 5}, 3, q);
  EXPECT_THAT(q, ElementsAre(7, 9));
}

TEST(Requantize, RoundsAndClampsToTheLevels) {
  std::array<uint8_t, 4> q;
  RequantizeSigned(std::array{-9.0f, 0.25f, 0.75f, 9.0f}, 0.5f, 4, q);
  EXPECT_THAT(q, ElementsAre(0, 4, 6, 7));
  RequantizeWithMin(std::array{-2.0f, -1.0f, 0.4f, 9.0f}, {1, 1}, 3, q);
  EXPECT_THAT(q, ElementsAre(0, 0, 1, 3));
}

// Byte 0 is scale 0 and the upper bits of scale 4; byte 8 the lower bits of scale and minimum 4.
TEST(ScalePairs, AreLaidOutInTwelveBytesAsInTheTable) {
  ScalePairs pairs{};
  pairs.d = 0x3c00;     // 1
  pairs.dmin = 0x4000;  // 2
  pairs.packed[0] = 0b10'000011;
  pairs.packed[4] = 0b01'000101;
  pairs.packed[8] = 0x97;
  EXPECT_EQ(pairs.ScaleOf(0), 3);
  EXPECT_EQ(pairs.MinOf(0), 5);
  EXPECT_EQ(pairs.ScaleOf(4), 0b10'0111);
  EXPECT_EQ(pairs.MinOf(4), 0b01'1001);
  EXPECT_EQ(pairs.Group(4).scale, 39.0f);
  EXPECT_EQ(pairs.Group(4).min, 50.0f);
  EXPECT_EQ(pairs.ScaleOf(7), 0);
}

// Group 3 is the only one whose values matter enough to get an exact scale; the others are flat.
TEST(ScalePairs, TheLargestScaleAndMinimumAreStoredAsSixtyThree) {
  std::array<float, 256> values{};
  for (size_t i = 96; i < 128; ++i) values[i] = static_cast<float>(i % 16) - 4;
  const PairSearch search = {kGrid, kGrid, false};
  Levels q;
  for (const bool weighted : {false, true}) {
    const std::array<float, 256> importance = [] {
      std::array<float, 256> equal;
      equal.fill(1);
      return equal;
    }();
    const ScalePairs pairs = FitPairs(values, weighted ? Values(importance) : Values(), search, q);
    EXPECT_EQ(pairs.ScaleOf(3), 63);
    EXPECT_EQ(pairs.MinOf(3), 63);
    EXPECT_EQ(pairs.ScaleOf(0), 0);
    EXPECT_NEAR(pairs.Group(3).scale, 1.0f, 1e-3f);
    EXPECT_NEAR(pairs.Group(3).min, 4.0f, 4e-3f);
  }
}

}  // namespace
}  // namespace quant
