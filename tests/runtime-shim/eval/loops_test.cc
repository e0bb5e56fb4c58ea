#include "runtime-shim/eval/loops.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace moepack::runtime {
namespace {

TEST(Loops, TextThatNeverRepeatsHasNoLoop) {
  std::vector<uint32_t> ids(64);
  std::iota(ids.begin(), ids.end(), 0u);
  const LoopResult result = FindLoop(ids);
  EXPECT_EQ(result.tokens, 64u);
  EXPECT_EQ(result.repeated_share, 0);
  EXPECT_FALSE(result.looping());
}

TEST(Loops, APeriodAtTheEndFourTimesIsALoop) {
  const std::vector<uint32_t> ids = {9, 8, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3};
  const LoopResult result = FindLoop(ids);
  EXPECT_EQ(result.period, 3u);
  // The last half is 3 1 2 3 1 2 3: 3 1 2 3 occurs in it twice.
  EXPECT_DOUBLE_EQ(result.repeated_share, 4.0 / 7);
}

TEST(Loops, ThreeTimesAreNotALoop) {
  const LoopResult result = FindLoop(std::vector<uint32_t>{9, 9, 7, 1, 2, 3, 1, 2, 3, 1, 2, 3});
  EXPECT_EQ(result.period, 0u);
  EXPECT_EQ(result.repeated_share, 0.5) << "the last six are 1 2 3 twice";
}

TEST(Loops, IgnoresALoopThatEnded) {
  const LoopResult result = FindLoop(std::vector<uint32_t>{1, 1, 1, 1, 1, 1, 1, 2});
  EXPECT_EQ(result.period, 0u);
  EXPECT_EQ(result.repeated_share, 0.5) << "1 1 twice in 1 1 1 2";
}

TEST(Loops, ReportsTheShortestPeriod) {
  EXPECT_EQ(FindLoop(std::vector<uint32_t>(64, 5)).period, 1u);
}

TEST(Loops, IgnoresPeriodsOfMoreThanSixteenTokens) {
  std::vector<uint32_t> ids;
  for (int repeat = 0; repeat < 4; ++repeat) {
    for (uint32_t i = 0; i < 16; ++i) ids.push_back(i);
  }
  EXPECT_EQ(FindLoop(ids).period, 16u);
  ids.clear();
  for (int repeat = 0; repeat < 4; ++repeat) {
    for (uint32_t i = 0; i < 17; ++i) ids.push_back(i);
  }
  EXPECT_FALSE(FindLoop(ids).looping());
}

TEST(Loops, CountsRepeatsOnlyInTheLastHalf) {
  // 1 2 3 occurs in both halves; in the last one nothing occurs twice.
  EXPECT_EQ(FindLoop(std::vector<uint32_t>{1, 2, 3, 4, 1, 2, 3, 5}).repeated_share, 0);
  // 7 8 twice in 7 8 9 7 8.
  EXPECT_DOUBLE_EQ(FindLoop(std::vector<uint32_t>{1, 2, 3, 4, 5, 7, 8, 9, 7, 8}).repeated_share,
                   2.0 / 5);
}

TEST(Loops, AnEmptyTextIsNotALoop) {
  const LoopResult result = FindLoop({});
  EXPECT_EQ(result.repeated_share, 0);
  EXPECT_FALSE(result.looping());
}

}  // namespace
}  // namespace moepack::runtime
