#include "runtime-shim/session/together.h"

#include <gtest/gtest.h>

#include "tests/runtime-shim/fake_session.h"

namespace moepack::runtime {
namespace {

class Fit : public testing::Test {
 protected:
  Fit() {
    model_.bytes_per_token_ = 100;
    model_.bytes_per_position_ = 10;
  }
  FakeModel model_;
};

TEST_F(Fit, TakesAsManySessionsAsFit) {
  const Together three = FitSessions(model_, 8, 3 * 8 * 110 + 50);
  EXPECT_EQ(three.sessions, 3u);
  EXPECT_EQ(three.chunk, 8u);
  EXPECT_EQ(three.batch(), 24u);
}

TEST_F(Fit, ASessionThatDoesNotFitRunsInChunks) {
  const Together one = FitSessions(model_, 8, 8 * 10 + 350);
  EXPECT_EQ(one.sessions, 1u);
  EXPECT_EQ(one.chunk, 3u);
  EXPECT_EQ(FitSessions(model_, 8, 1).chunk, 1u);
}

TEST_F(Fit, TakesNoMoreTokensThanHelp) {
  const Together most = FitSessions(model_, 512, UINT64_MAX);
  EXPECT_EQ(most.batch(), kMostTogether);
  EXPECT_EQ(FitChunk(model_, 3, 100'000, UINT64_MAX).chunk, kMostTogether / 3);
}

TEST_F(Fit, AChunkFitsAllSessionsAndTheContext) {
  EXPECT_EQ(FitChunk(model_, 4, 64, 4 * 64 * 10 + 4 * 20 * 100).chunk, 20u);
  EXPECT_EQ(FitChunk(model_, 4, 64, 1u << 30).chunk, 64u);
  EXPECT_EQ(FitChunk(model_, 4, 64, 0).chunk, 1u);
}

}  // namespace
}  // namespace moepack::runtime
