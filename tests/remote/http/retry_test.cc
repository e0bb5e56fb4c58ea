#include "libshard/remote/http/retry.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>

namespace moepack::remote {
namespace {

TEST(RemoteRetry, DoublesPausesUpToTheMaximum) {
  RetryRule rule;
  rule.first = Seconds(1);
  rule.most = Seconds(8);
  for (const auto& [tried, most] : {std::pair{1, 1.0}, {2, 2.0}, {3, 4.0}, {4, 8.0}, {9, 8.0}}) {
    const double pause = PauseAfter(rule, tried, {}).count();
    EXPECT_LE(pause, most);
    EXPECT_GE(pause, most / 2);
  }
}

TEST(RemoteRetry, PausesGrowAfterWhatTheServerAsksFor) {
  RetryRule rule;
  for (const auto& [tried, most] : {std::pair{1, 0.5}, {3, 2.0}, {20, 30.0}}) {
    const double none = PauseAfter(rule, tried, {{"retry-after", "0"}}).count();
    EXPECT_LE(none, most);
    EXPECT_GE(none, most / 2);
    EXPECT_GE(PauseAfter(rule, tried, {{"retry-after", "7"}}).count(), 7 + most / 2);
  }
}

TEST(RemoteRetry, ReadsTheRequestedPause) {
  EXPECT_EQ(AskedPause({{"retry-after", "7"}})->count(), 7);
  EXPECT_EQ(AskedPause({{"retry-after", "Sat, 01 Jan 2000 00:00:00 GMT"}})->count(), 0);
  EXPECT_EQ(AskedPause({{"retry-after", "soon"}}), std::nullopt);
  EXPECT_EQ(AskedPause({{"ratelimit", "\"api\"; r=0; t=12"}, {"retry-after", "7"}})->count(), 13);
  EXPECT_EQ(AskedPause({{"ratelimit", "\"api\";r=5;t=12"}}), std::nullopt);
  EXPECT_EQ(AskedPause({}), std::nullopt);
}

}  // namespace
}  // namespace moepack::remote
