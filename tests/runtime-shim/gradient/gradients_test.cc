#include "runtime-shim/gradient/gradients.h"

#include <gtest/gtest.h>

#include <cmath>
#include <tuple>
#include <vector>

#include "runtime-shim/model/router.h"
#include "runtime-shim/reference/scalar_ops.h"

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

// On both sides of every clamp, but not at one, where there is no derivative.
constexpr float kGates[] = {-9, -3, -0.4f, 0.2f, 1, 1.9f, 3, 6.9f, 7.2f};
constexpr float kUps[] = {-8, -2.5f, -1, 0.3f, 1.4f, 2.5f, 6, 7.5f};

class ActivationSlopes : public testing::TestWithParam<Activation> {
 protected:
  static float Value(float gate, float up) {
    ActivateRow(GetParam(), std::span(&gate, 1), std::span<const float>(&up, 1));
    return gate;
  }
};

TEST_P(ActivationSlopes, AreDifferencesOfTheReference) {
  constexpr float kStep = 1e-2f;
  for (const float gate : kGates) {
    for (const float up : kUps) {
      float by_gate = gate, by_up = up, out = 0;
      ActivateWithSlopes(GetParam(), std::span(&by_gate, 1), std::span(&by_up, 1),
                         std::span(&out, 1));
      EXPECT_NEAR(out, Value(gate, up), 1e-5 * (1 + std::abs(out))) << gate << ", " << up;
      const float over_gate = (Value(gate + kStep, up) - Value(gate - kStep, up)) / (2 * kStep);
      const float over_up = (Value(gate, up + kStep) - Value(gate, up - kStep)) / (2 * kStep);
      EXPECT_NEAR(by_gate, over_gate, 5e-3 * (1 + std::abs(over_gate))) << gate << ", " << up;
      EXPECT_NEAR(by_up, over_up, 5e-3 * (1 + std::abs(over_up))) << gate << ", " << up;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Every, ActivationSlopes,
    testing::Values(Activation(Activation::kSilu), Activation(Activation::kGelu),
                    Activation(Activation::kClampedSilu), Activation(Activation::kSigmoid),
                    Activation(Activation::kSquaredRelu), Activation(Activation::kLimitedSilu, 2),
                    Activation(Activation::kRelu), Activation(Activation::kSiluOfLimited, 2),
                    Activation(Activation::kSitu, 4, 25), Activation(Activation::kSitu, 2)));

TEST(ActivationSlopesWithoutUp, AreThoseOfTheGateAlone) {
  std::vector<float> gate = {-2, 0, 3}, out(3);
  ActivateWithSlopes(Activation::kSquaredRelu, gate, {}, out);
  EXPECT_EQ(out, (std::vector<float>{0, 0, 9}));
  EXPECT_EQ(gate, (std::vector<float>{0, 0, 6}));
  gate = {-2, 0, 3};
  ActivateWithSlopes(Activation::kRelu, gate, {}, out);
  EXPECT_EQ(out, (std::vector<float>{0, 0, 3}));
  EXPECT_EQ(gate, (std::vector<float>{0, 0, 1}));
}

}  // namespace

}  // namespace moepack::runtime
