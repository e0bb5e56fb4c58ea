#include <gtest/gtest.h>

#include "runtime-shim/reference/reference.h"
#include "tests/runtime-shim/refit/made_layer.h"

namespace moepack::runtime {
namespace {

// The host runs one expert after another; other executors mix them as a forward pass does.
TEST(RunningANode, GivesTheOutputsOfTheReferenceOnTheHost) {
  for (const bool weigh_inputs : {false, true}) {
    MadeLayer layer(2, {.tokens = 9000}, true);  // more than run at once
    NodeLayer& node = layer.made.node;
    node.form.weigh_inputs = weigh_inputs;
    ReferenceExecutor executor;
    Products reference(executor, 1);
    ASSERT_FALSE(reference.on_host());
    ASSERT_TRUE(RouteNode(reference, node));
    ASSERT_TRUE(RunNode(reference, node));
    const std::vector<float> wanted = ValuesOf(*node.outputs);
    ASSERT_TRUE(layer.made.products().on_host());
    ASSERT_TRUE(RunNode(layer.made.products(), node));
    const std::vector<float> found = ValuesOf(*node.outputs);
    for (size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(found[i], wanted[i], 1e-4) << i;
  }
}

TEST(RunningANode, HoldsActivationsIfTheMemoryAllows) {
  MadeNode made;
  made.Run();
  const NodeLayer& node = made.node;
  const size_t bytes = node.routes.places.size() * node.experts.width * sizeof(float);
  ASSERT_EQ(node.held.size(), 4u);
  const ExpertTokens tokens = TokensOfExperts(node, false)[2];
  EXPECT_EQ(node.held[2].tokens, tokens.tokens);
  std::vector<float> held, made_again;
  ASSERT_TRUE(TakeActivations(made.products(), node, 2, tokens, held));
  EXPECT_EQ(held, node.held[2].values);
  made.node.activation_memory = bytes - 1;
  made.Run();
  EXPECT_TRUE(node.held.empty());
  ASSERT_TRUE(TakeActivations(made.products(), node, 2, tokens, made_again));
  EXPECT_EQ(held, made_again);
}

TEST(RunningANode, AgainAfterItsDownProjectionsChangedGivesTheSameBits) {
  MadeNode made({.tokens = 9000});
  made.Run();
  for (float& value : made.node.experts.down) value *= 1.25f;
  ASSERT_TRUE(RunDown(made.products(), made.node));
  const std::vector<float> again = ValuesOf(*made.node.outputs);
  ASSERT_TRUE(RunNode(made.products(), made.node));
  EXPECT_EQ(ValuesOf(*made.node.outputs), again);
}

}  // namespace
}  // namespace moepack::runtime
