#include "runtime-shim/refit/estimate.h"

#include <gtest/gtest.h>

#include "tests/runtime-shim/refit/tiny_refit.h"

namespace moepack::runtime {
namespace {

constexpr uint64_t kTokens = 1200, kWidth = 16, kHidden = 32, kKept = 4, kChosen = 2;

class RefitNeeds : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(refit_.Open()); }
  RefitEstimate Of(const RefitOptions& options) const {
    return EstimateRefit(refit_.input().model, refit_.plan, options, kTokens);
  }
  TinyRefit refit_{"qwen3moe"};
};

// Inputs, residuals and activations of the tokens of one expert.
constexpr uint64_t kSample = kTokens * kChosen / kKept * 2 * (kHidden + kWidth) * sizeof(float);

TEST_F(RefitNeeds, CountsTheJointMatrixAndItsActivations) {
  const RefitEstimate estimate = Of(SmallOptions());
  EXPECT_TRUE(estimate.joint);
  constexpr uint64_t kSize = kKept * kWidth;
  EXPECT_EQ(estimate.matrix_bytes, kSample + kSize * (kSize + kHidden) * sizeof(double) +
                                       kTokens * kChosen * kWidth * sizeof(float));
}

TEST_F(RefitNeeds, CountsTheNeuronsThatMayJoin) {
  RefitOptions options = SmallOptions();
  options.pool = 1000;
  constexpr uint64_t kJoined = kWidth + 1000;
  EXPECT_EQ(Of(options).matrix_bytes, kSample + kJoined * 2 * (kJoined + kHidden) * sizeof(double) +
                                          2 * kJoined * kHidden * sizeof(float));
}

}  // namespace
}  // namespace moepack::runtime
