#include "runtime-shim/refit/refill.h"

#include <gtest/gtest.h>

#include "tests/runtime-shim/refit/made_layer.h"

namespace moepack::runtime {
namespace {

bool HasNeuron(const RefittedExperts& experts, size_t place, const RefittedExperts& all, size_t id,
               size_t index) {
  const size_t hidden = all.hidden, width = all.width;
  const auto wanted = all.gate.begin() + static_cast<ptrdiff_t>((id * width + index) * hidden);
  for (size_t neuron = 0; neuron < width; ++neuron) {
    const auto own =
        experts.gate.begin() + static_cast<ptrdiff_t>((place * width + neuron) * hidden);
    if (std::equal(own, own + static_cast<ptrdiff_t>(hidden), wanted)) return true;
  }
  return false;
}

// The missing output of every kept expert is a neuron of expert 1, which the node lacks.
TEST(Refill, MovesInTheNeuronThatExplainsTheMissingOutput) {
  MadeLayer layer;
  NodeLayer& node = layer.made.node;
  layer.made.Run();
  std::vector<float> targets = ValuesOf(*node.outputs);
  const std::vector<float> inputs = ValuesOf(*node.inputs);
  for (size_t token = 0; token < node.tokens(); ++token) {
    const double missing =
        PlainActivations(layer.all, 1, inputs.data() + token * node.experts.hidden)[3];
    for (size_t row = 0; row < node.experts.hidden; ++row)
      targets[token * node.experts.hidden + row] += static_cast<float>(5 * missing);
  }
  ASSERT_TRUE(layer.made.targets().Write(0, targets));
  layer.made.Run();
  const double before = layer.made.FitError();
  EXPECT_GT(layer.Refill(), 0u);
  ASSERT_TRUE(RunNode(layer.made.products(), node));
  EXPECT_LT(layer.made.FitError(), before / 3);
  EXPECT_TRUE(HasNeuron(node.experts, 0, layer.all, 1, 3));
  EXPECT_EQ(node.experts.gate.size(), 4u * 5 * 8);
}

TEST(Refill, LeavesTheOutputsOfTheNewExperts) {
  MadeLayer layer;
  layer.Refill();
  const std::vector<float> left = ValuesOf(*layer.made.node.outputs);
  ASSERT_TRUE(RunNode(layer.made.products(), layer.made.node));
  const std::vector<float> made_again = ValuesOf(*layer.made.node.outputs);
  for (size_t i = 0; i < left.size(); ++i) ASSERT_NEAR(left[i], made_again[i], 1e-4) << i;
}

TEST(Refill, LowersTheError) {
  MadeLayer layer;
  layer.made.Run();
  const double before = layer.made.FitError();
  EXPECT_GT(layer.Refill(), 0u);
  ASSERT_TRUE(RunNode(layer.made.products(), layer.made.node));
  EXPECT_LT(layer.made.FitError(), 0.9 * before);
}

TEST(Refill, KeepsExpertsWithTooFewTokens) {
  MadeLayer layer;
  layer.made.node.least_tokens = 1000;
  const RefittedExperts before = layer.made.node.experts;
  EXPECT_EQ(layer.Refill(), 0u);
  EXPECT_EQ(layer.made.node.experts.down, before.down);
}

TEST(Refill, SingularMatrixIsNamed) {
  MadeLayer layer;
  std::fill(layer.made.node.experts.gate.begin(), layer.made.node.experts.gate.begin() + 8, 0.0f);
  layer.made.Run();
  RefitOptions options;
  options.lambda = 0;
  const auto moved = RefillExperts(layer.made.products(), options, layer.source(), layer.made.node);
  ASSERT_FALSE(moved);
  EXPECT_EQ(moved.error().code, Code::kInvalidArgument);
  EXPECT_EQ(moved.error().message,
            "layer 0: expert 0: normal matrix: expected a positive definite one, found a singular "
            "one");
}

TEST(Refill, PoolLimitsWhatMoves) {
  MadeLayer layer;
  const uint64_t moved = layer.Refill({.pool = 1});
  EXPECT_GT(moved, 0u);
  EXPECT_LE(moved, 4u);
  EXPECT_GT(MadeLayer().Refill(), moved) << "without the limit more would move";
}

TEST(Refill, BitsDoNotDependOnThreads) {
  MadeShape shape;
  shape.tokens = 3000;
  shape.hidden = 72;
  shape.width = 40;
  MadeLayer one(1, shape), three(3, shape);
  EXPECT_EQ(one.Refill(), three.Refill());
  EXPECT_EQ(one.made.node.experts.gate, three.made.node.experts.gate);
  EXPECT_EQ(one.made.node.experts.down, three.made.node.experts.down);
}

}  // namespace
}  // namespace moepack::runtime
