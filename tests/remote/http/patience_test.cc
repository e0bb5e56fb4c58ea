#include "libshard/remote/http/patience.h"

#include <gtest/gtest.h>

namespace moepack::remote {
namespace {

class RemotePatience : public testing::Test {
 protected:
  Patience::Time At(double seconds) const { return Patience::Time(Seconds(seconds)); }
  // Whether a request gives up after so many tries at this time.
  bool GivesUpAfter(int tries, double seconds, bool reached = true) {
    Patience::Failures failures;
    for (int i = 1; i < tries; ++i) {
      if (patience_.IsOver(failures, reached, At(seconds))) return false;
    }
    return patience_.IsOver(failures, reached, At(seconds));
  }

  RetryRule rule_;
  Patience patience_{rule_};
};

TEST_F(RemotePatience, AServerThatNeverAnsweredHasFiveTries) {
  EXPECT_TRUE(GivesUpAfter(5, 0));
  EXPECT_TRUE(GivesUpAfter(5, 1e6, false));
}

TEST_F(RemotePatience, TheFirstRequestWithoutAnyAnswerEndsTheOthers) {
  EXPECT_TRUE(GivesUpAfter(5, 0));
  EXPECT_TRUE(patience_.EndUnanswered());
  EXPECT_TRUE(GivesUpAfter(1, 0));
  patience_.Note(At(0));  // of a request that was in flight
  EXPECT_FALSE(patience_.EndUnanswered());
  EXPECT_FALSE(GivesUpAfter(4, 0));
}

TEST_F(RemotePatience, ProgressGivesMinutesToAllRequests) {
  patience_.Note(At(1000));
  Patience::Failures failures;
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(patience_.IsOver(failures, true, At(1299)));
  EXPECT_TRUE(patience_.IsOver(failures, true, At(1300)));
  EXPECT_EQ(TriesText(rule_, failures), " (1001 tries, no progress for 300 s)");
  EXPECT_FALSE(GivesUpAfter(4, 1e6)) << "each request has its tries";
  EXPECT_TRUE(GivesUpAfter(5, 1e6));
}

TEST_F(RemotePatience, ProgressOfOthersKeepsAnUnreachableServerAlive) {
  Patience::Failures failures;
  for (int i = 0; i < 40; ++i) {
    if (i % 4 == 0) patience_.Note(At(i));
    EXPECT_FALSE(patience_.IsOver(failures, false, At(i)));
  }
  EXPECT_TRUE(patience_.IsOver(failures, false, At(40)));
}

TEST_F(RemotePatience, BytesThatAreKeptAreProgressByTheMebibyte) {
  constexpr uint64_t kHalf = 512 << 10;
  EXPECT_FALSE(patience_.Keep(kHalf, At(0)));
  EXPECT_TRUE(patience_.Keep(kHalf, At(1)));
  EXPECT_FALSE(patience_.Keep(kHalf, At(2)));
  EXPECT_FALSE(GivesUpAfter(50, 100));
}

}  // namespace
}  // namespace moepack::remote
