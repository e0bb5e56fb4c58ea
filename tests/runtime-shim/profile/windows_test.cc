#include "runtime-shim/profile/windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moepack::runtime {
namespace {

using ::testing::ElementsAre;

TEST(Windows, AreConsecutiveWithoutOverlap) {
  const auto windows = SplitWindows(std::vector<uint32_t>{1, 2, 3, 4, 5}, 3, std::nullopt, false);
  ASSERT_EQ(windows.size(), 2u);
  EXPECT_THAT(windows[0].tokens, ElementsAre(1, 2, 3));
  EXPECT_THAT(windows[1].tokens, ElementsAre(4, 5));
  EXPECT_EQ(windows[1].first_scored, 1u);
}

TEST(Windows, DropALastWindowOfOneTokenUnlessItIsTheOnlyOne) {
  EXPECT_EQ(SplitWindows(std::vector<uint32_t>{1, 2, 3, 4}, 3, std::nullopt, false).size(), 1u);
  const auto windows = SplitWindows(std::vector<uint32_t>{1}, 3, std::nullopt, false);
  ASSERT_EQ(windows.size(), 1u);
  EXPECT_THAT(windows[0].tokens, ElementsAre(1));
}

TEST(Windows, EveryWindowOfASessionWithBosStartsWithIt) {
  const auto windows = SplitWindows(std::vector<uint32_t>{9, 1, 2, 3, 4, 5}, 3, 9, false);
  ASSERT_EQ(windows.size(), 3u);
  EXPECT_THAT(windows[0].tokens, ElementsAre(9, 1, 2));
  EXPECT_THAT(windows[1].tokens, ElementsAre(9, 3, 4));
  EXPECT_THAT(windows[2].tokens, ElementsAre(9, 5));
}

TEST(Windows, ASessionWithoutBosStaysUnchanged) {
  const auto windows = SplitWindows(std::vector<uint32_t>{1, 9, 2, 3}, 2, 9, false);
  EXPECT_THAT(windows[1].tokens, ElementsAre(2, 3));
}

TEST(Windows, HalfScoresTheTokensPastHalfTheContext) {
  const auto windows = SplitWindows(std::vector<uint32_t>{1, 2, 3, 4, 5}, 4, std::nullopt, true);
  ASSERT_EQ(windows.size(), 1u);
  EXPECT_EQ(windows[0].first_scored, 3u);
}

TEST(Windows, HalfReplacesTheFirstTokenWithBos) {
  const auto windows = SplitWindows(std::vector<uint32_t>{9, 1, 2, 3, 4, 5}, 3, 9, true);
  ASSERT_EQ(windows.size(), 2u);
  EXPECT_THAT(windows[0].tokens, ElementsAre(9, 1, 2));
  EXPECT_THAT(windows[1].tokens, ElementsAre(9, 4, 5));
}

}  // namespace
}  // namespace moepack::runtime
