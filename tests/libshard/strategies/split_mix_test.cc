#include "libshard/strategies/split_mix.h"

#include <gtest/gtest.h>

#include <map>
#include <span>
#include <vector>

namespace moepack {
namespace {

// The first numbers for seed 1234567 as other implementations publish them.
TEST(SplitMix64, DrawsThePublishedNumbers) {
  SplitMix64 random(1234567);
  EXPECT_EQ(random.Next(), 6457827717110365317u);
  EXPECT_EQ(random.Next(), 3203168211198807973u);
  EXPECT_EQ(random.Next(), 9817491932198370423u);
}

TEST(SplitMix64, DrawsEveryNumberBelowALimit) {
  SplitMix64 random(7);
  std::vector<int> drawn(5);
  for (int i = 0; i < 1000; ++i) ++drawn[random.Below(5)];
  for (const int count : drawn) EXPECT_NEAR(count, 200, 60);
  EXPECT_EQ(random.Below(1), 0u);
}

TEST(SplitMix64, ShufflesIntoEveryOrder) {
  SplitMix64 random(7);
  std::map<std::vector<int>, int> orders;
  for (int i = 0; i < 1200; ++i) {
    std::vector<int> values = {1, 2, 3};
    random.Shuffle(std::span(values));
    ++orders[values];
  }
  EXPECT_EQ(orders.size(), 6u);
  for (const auto& [order, count] : orders) EXPECT_NEAR(count, 200, 60);
}

}  // namespace
}  // namespace moepack
