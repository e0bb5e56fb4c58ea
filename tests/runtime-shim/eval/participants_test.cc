#include "runtime-shim/eval/participants.h"

#include <gtest/gtest.h>

#include "tests/runtime-shim/fake_session.h"

namespace moepack::runtime {
namespace {

// Two runs of eight positions that take one token each at a time.
constexpr uint64_t kLeast = 2 * (8 * 10 + 100) + 2 * 16;

class FitEval : public testing::Test {
 protected:
  FitEval() {
    options_.context = 8;
    for (FakeModel* model : {&own_, &reference_}) {
      model->bytes_per_token_ = 100;
      model->bytes_per_position_ = 10;
    }
  }
  void Fit(uint32_t groups, const Model* reference, uint64_t bytes) {
    const Status fitted = FitEvaluation(own_, groups, reference, {bytes, bytes}, options_);
    EXPECT_TRUE(fitted) << (fitted ? "" : fitted.error().message);
  }
  FakeModel own_, reference_;
  EvalOptions options_;
};

TEST_F(FitEval, RunsAllGroupsAndSeveralWindowsWhereTheyFit) {
  Fit(4, nullptr, 1 << 20);
  EXPECT_EQ(options_.groups_at_once, 4u);
  EXPECT_EQ(options_.chunk, 8u);
  EXPECT_GT(options_.windows, 10u);
  EXPECT_EQ(options_.own_batch, 5 * 8 * options_.windows);
  EXPECT_EQ(options_.reference_batch, 8 * options_.windows);
  Fit(4, nullptr, uint64_t{1} << 40);
  EXPECT_EQ(options_.windows, kMostTogether / (5 * 8));
}

TEST_F(FitEval, RunsFewerGroupsAtOnceWhereNotAllFit) {
  Fit(4, nullptr, 4000);
  EXPECT_EQ(options_.groups_at_once, 2u);
  EXPECT_EQ(options_.windows, 1u);
  EXPECT_EQ(options_.chunk, 8u);
}

TEST_F(FitEval, RefusesABoundThatHoldsNoGroup) {
  Fit(4, nullptr, kLeast);
  EXPECT_EQ(options_.groups_at_once, 1u);
  EXPECT_EQ(options_.chunk, 1u);
  const Status refused = FitEvaluation(own_, 4, nullptr, {kLeast - 1, kLeast - 1}, options_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_EQ(refused.error().message,
            ": --memory: expected at least 392 bytes for what runs side by side in a context of 8, "
            "found 391");
}

// Its logits are held for every token, and read once more.
TEST_F(FitEval, CountsTheReference) {
  const uint64_t both = kLeast + 8 * 10 + 100 + 16 + 2 * 16;
  Fit(4, &reference_, both);
  EXPECT_EQ(options_.groups_at_once, 1u);
  EXPECT_EQ(options_.chunk, 1u);
  EXPECT_FALSE(FitEvaluation(own_, 4, &reference_, {both - 1, both - 1}, options_));
  Fit(4, &reference_, 1 << 20);
  EXPECT_EQ(options_.groups_at_once, 4u);
  EXPECT_EQ(options_.chunk, 8u);
}

TEST_F(FitEval, NeedsNoGroups) {
  Fit(0, nullptr, 1 << 20);
  EXPECT_EQ(options_.groups_at_once, 0u);
  EXPECT_EQ(options_.own_batch, 8 * options_.windows);
}

}  // namespace
}  // namespace moepack::runtime
