#include "runtime-shim/gradient/gate_gradient.h"

#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "runtime-shim/model/router.h"

namespace moepack::runtime {
namespace {

constexpr float kLogits[] = {0.3f, -1.2f, 0.9f, 0.1f, 2.0f};
constexpr double kByWeight[] = {0.7, -1.1, 0.4};

class GateGradientOf : public testing::TestWithParam<std::tuple<Gating, bool, double>> {
 protected:
  Routing MakeRouting() const {
    Routing routing;
    routing.expert_count = std::size(kLogits);
    routing.top_k = std::size(kByWeight);
    routing.gating = std::get<0>(GetParam());
    routing.normalize = std::get<1>(GetParam());
    routing.scale = std::get<2>(GetParam());
    return routing;
  }
};

// The loss is the sum of the weights times kByWeight.
double LossOf(const Routing& routing, std::vector<float> logits, size_t changed, float by) {
  logits[changed] += by;
  const auto chosen = SelectExperts(logits, {}, routing, {0, 1, 2, 3, 4});
  EXPECT_TRUE(chosen);
  double loss = 0;
  for (size_t i = 0; i < chosen->weights.size(); ++i) loss += chosen->weights[i] * kByWeight[i];
  return loss;
}

TEST_P(GateGradientOf, RouterIsItsSlope) {
  const Routing routing = MakeRouting();
  const std::vector<float> logits(std::begin(kLogits), std::end(kLogits));
  const auto chosen = SelectExperts(logits, {}, routing, {0, 1, 2, 3, 4});
  ASSERT_TRUE(chosen);
  const std::vector<double> gradient = GateGradient(routing, logits, chosen->ids, kByWeight);
  constexpr float kStep = 1e-2f;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double slope =
        (LossOf(routing, logits, i, kStep) - LossOf(routing, logits, i, -kStep)) / (2 * kStep);
    EXPECT_NEAR(gradient[i], slope, 2e-4 * std::get<2>(GetParam())) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Every, GateGradientOf,
    testing::Combine(testing::Values(Gating::kSoftmax, Gating::kSigmoid, Gating::kSoftmaxAfterTopK,
                                     Gating::kSigmoidAfterTopK, Gating::kSqrtSoftplus),
                     testing::Bool(), testing::Values(1.0, 2.5)));

}  // namespace
}  // namespace moepack::runtime
