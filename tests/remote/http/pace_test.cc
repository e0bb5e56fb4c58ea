#include "libshard/remote/http/pace.h"

#include <gtest/gtest.h>

#include "libshard/base/text/text.h"

namespace moepack::remote {
namespace {

HttpFields Limit(uint64_t left, uint64_t seconds) {
  return {{"ratelimit", Cat("\"resolvers\";r=", left, ";t=", seconds)}};
}

const Pace::Time kNow = Pace::Time(Seconds(1000));

double Wait(Pace& pace, double at = 0) {
  return (pace.Take(kNow + Seconds(at)) - kNow).count() - at;
}

TEST(RemotePace, DoesNotWaitWithoutALimit) {
  Pace pace;
  pace.Note({}, kNow);
  pace.Note({{"ratelimit", "\"api\";r=few;t=5"}}, kNow);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Wait(pace), 0);
}

TEST(RemotePace, DoesNotWaitWhileManyRequestsAreLeft) {
  Pace pace;
  pace.Note(Limit(65, 300), kNow);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Wait(pace), 0);
}

TEST(RemotePace, SpreadsTheLastRequestsOverTheWindow) {
  Pace pace;
  pace.Note(Limit(9, 99), kNow);
  for (int i = 0; i < 10; ++i) EXPECT_DOUBLE_EQ(Wait(pace), 10.0 * i);
  // All others run once it has ended.
  for (int i = 0; i < 5; ++i) EXPECT_DOUBLE_EQ(Wait(pace), 100);
  EXPECT_EQ(Wait(pace, 100), 0);
  EXPECT_EQ(Wait(pace, 100), 0);
}

TEST(RemotePace, WaitsForTheNextWindowWhenNoRequestIsLeft) {
  Pace pace;
  pace.Note(Limit(0, 20), kNow);
  EXPECT_DOUBLE_EQ(Wait(pace), 21);
  EXPECT_DOUBLE_EQ(Wait(pace, 5), 16);
}

TEST(RemotePace, ANewWindowEndsTheWait) {
  Pace pace;
  pace.Note(Limit(1, 300), kNow);
  EXPECT_EQ(Wait(pace), 0);
  EXPECT_GT(Wait(pace), 100);
  pace.Note(Limit(5000, 300), kNow);
  EXPECT_EQ(Wait(pace), 0);
  pace.Note(Limit(0, UINT64_MAX), kNow);
  EXPECT_GT(Wait(pace), 1e9);
}

}  // namespace
}  // namespace moepack::remote
