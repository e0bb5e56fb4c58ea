#include "runtime-shim/refit/estimate.h"

#include <gtest/gtest.h>

#include "tests/runtime-shim/refit/tiny_refit.h"

namespace moepack::runtime {
namespace {

constexpr uint64_t kSmallTokens = 1200, kSmallWidth = 16, kSmallHidden = 32, kSmallKept = 4,
                   kSmallChosen = 2;

class RefitNeeds : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(refit_.Open()); }
  RefitEstimate Of(const RefitOptions& options) const {
    return EstimateRefit(refit_.input().model, refit_.plan, options, kSmallTokens);
  }
  TinyRefit refit_{"qwen3moe"};
};

// Inputs, residuals, outputs, activations and scaled activations of the tokens of one expert.
constexpr uint64_t kSample = kSmallTokens * kSmallChosen / kSmallKept *
                             (3 * kSmallHidden + 2 * kSmallWidth) * sizeof(float);

TEST_F(RefitNeeds, CountsTheJointMatrixAndItsActivations) {
  const RefitEstimate estimate = Of(SmallOptions());
  EXPECT_TRUE(estimate.joint);
  constexpr uint64_t kSize = kSmallKept * kSmallWidth;
  EXPECT_EQ(estimate.matrix_bytes, kSample + kSize * (kSize + kSmallHidden) * sizeof(double) +
                                       kSmallTokens * kSmallChosen * kSmallWidth * sizeof(float));
}

TEST_F(RefitNeeds, CountsTheNeuronsThatMayJoin) {
  RefitOptions options = SmallOptions();
  options.pool = 1000;
  constexpr uint64_t kJoined = kSmallWidth + 1000;
  EXPECT_EQ(Of(options).matrix_bytes, kSample +
                                          kJoined * 2 * (kJoined + kSmallHidden) * sizeof(double) +
                                          2 * kJoined * kSmallHidden * sizeof(float));
}

TEST_F(RefitNeeds, CountsTheRidgeRegressionThatIsRepeatedOnAllText) {
  const auto products = [this](std::vector<std::string> steps) {
    RefitOptions options = SmallOptions();
    options.steps = std::move(steps);
    return Of(options).products;
  };
  const double none = products({});
  const double router = products({kRouterStep}) - none, ridge = products({kRidgeStep}) - none;
  // The step itself, a second one, and what the second one needs.
  EXPECT_GT(products({kRidgeStep, kRidgeStep}) - none, ridge);
  EXPECT_LT(products({kRidgeStep, kRidgeStep}) - none, 2 * ridge);
  // It is repeated if the steps after it are dropped, too.
  EXPECT_DOUBLE_EQ(products({kRidgeStep, kRouterStep}) - none, ridge + router);
}

}  // namespace
}  // namespace moepack::runtime
