#include "runtime-shim/session/together.h"

#include <gtest/gtest.h>

#include "tests/runtime-shim/fake_session.h"

namespace moepack::runtime {
namespace {

// The fake's vocabulary is 4, so a row of logits takes 16 bytes.
class Fit : public testing::Test {
 protected:
  Fit() {
    model_.bytes_per_token_ = 100;
    model_.bytes_per_position_ = 10;
  }
  Together Sessions(uint32_t context, const MemoryBound& bound) {
    const auto together = FitSessions(model_, context, bound);
    EXPECT_TRUE(together) << (together ? "" : together.error().message);
    return together ? *together : Together{0, 0};
  }
  static MemoryBound Strict(uint64_t bytes) { return {bytes, bytes}; }
  FakeModel model_;
};

TEST_F(Fit, TakesAsManySessionsAsHaveRoom) {
  const Together four = Sessions(8, Strict(5000));
  EXPECT_EQ(four.sessions, 4u);
  EXPECT_EQ(four.chunk, 8u);
  EXPECT_EQ(four.batch(), 32u);
}

TEST_F(Fit, ASessionThatDoesNotFitRunsInChunks) {
  const Together one = Sessions(8, Strict(700));
  EXPECT_EQ(one.sessions, 1u);
  EXPECT_EQ(one.chunk, 4u);
  EXPECT_EQ(one.logit_bytes, 16u + 61u);
}

TEST_F(Fit, MoreTokensThanHelpAreNotTaken) {
  EXPECT_EQ(Sessions(512, Strict(UINT64_MAX)).batch(), kMostTogether);
  EXPECT_EQ(FitBytes(CostsOf(model_), 3, 100'000, UINT64_MAX).chunk, kMostTogether / 3);
}

// A position, a token and two rows of logits.
TEST_F(Fit, RefusesABoundThatHoldsNoToken) {
  const uint64_t least = 8 * 10 + 100 + 2 * 16;
  EXPECT_EQ(Sessions(8, Strict(least)).chunk, 1u);
  const auto refused = FitSessions(model_, 8, Strict(least - 1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_EQ(refused.error().message,
            ": --memory: expected at least 212 bytes for what runs side by side in a context of 8, "
            "found 211");
  EXPECT_EQ(refused.error().hint, "give more, or a smaller --context");
}

TEST_F(Fit, ExceedsWhatWasWantedWhereLessWouldNotDo) {
  const Together one = Sessions(8, {100, 212});
  EXPECT_EQ(one.sessions, 1u);
  EXPECT_EQ(one.chunk, 1u);
}

TEST_F(Fit, CountsTheStatesOfSessions) {
  model_.bytes_per_session_ = 1000;
  EXPECT_EQ(LeastBytes(CostsOf(model_), 2, 8), 2 * (1000u + 80u + 100u) + 32u);
  EXPECT_EQ(Sessions(8, Strict(5000)).sessions, 2u);
}

TEST_F(Fit, TakesNoMoreThanTheBound) {
  model_.bytes_per_session_ = 77;
  const SessionCosts costs = CostsOf(model_);
  for (uint64_t bytes = 289; bytes < 300'000; bytes += bytes / 3) {
    for (const uint32_t context : {2u, 8u}) {
      const Together fit = Sessions(context, Strict(bytes));
      const uint64_t taken = fit.sessions * (costs.session + context * costs.position) +
                             fit.batch() * costs.token + 2 * fit.logit_bytes;
      EXPECT_LE(taken, bytes) << context;
    }
  }
}

}  // namespace
}  // namespace moepack::runtime
