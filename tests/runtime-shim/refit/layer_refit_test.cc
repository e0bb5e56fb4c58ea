#include "runtime-shim/refit/layer_refit.h"

#include <gtest/gtest.h>

#include "runtime-shim/refit/ridge.h"
#include "tests/runtime-shim/refit/made_layer.h"

namespace moepack::runtime {
namespace {

RefitOptions Only(std::vector<std::string> steps) {
  RefitOptions options;
  options.steps = std::move(steps);
  return options;
}

LayerOutcome Refit(MadeNode& made, const RefitOptions& options) {
  auto outcome = RefitNodeLayer(made.products(), options, {}, made.node);
  EXPECT_TRUE(outcome) << outcome.error().message;
  return outcome ? *std::move(outcome) : LayerOutcome();
}

TEST(LayerRefit, KeepsAStepThatHelpsOnHeldOutText) {
  MadeNode made;
  made.TargetOthers(RandomExperts(made.shape(), 50));
  const LayerOutcome done = Refit(made, Only({kRidgeStep}));
  EXPECT_TRUE(done.outcome.accepted);
  EXPECT_LT(done.outcome.error_after, done.outcome.error_before);
  ASSERT_EQ(done.steps.size(), 1u);
  EXPECT_TRUE(done.steps[0].kept);
  EXPECT_EQ(done.outcome.slot_tokens.size(), 4u);
}

// Makes the held-out text say that nothing should change, while the rest says otherwise.
void HoldOutOwnOutputs(MadeNode& made) {
  made.Run();
  std::vector<float> targets = ValuesOf(made.targets());
  const std::vector<float> outputs = ValuesOf(*made.node.outputs);
  const size_t hidden = made.shape().hidden;
  for (size_t token = 0; token < made.node.tokens(); ++token) {
    if (made.node.fold_weights[token] == 0) continue;
    std::copy_n(outputs.begin() + static_cast<ptrdiff_t>(token * hidden), hidden,
                targets.begin() + static_cast<ptrdiff_t>(token * hidden));
  }
  targets[7 * hidden] += 0.01f;
  ASSERT_TRUE(made.targets().Write(0, targets));
}

// What was before a step is in memory, or in a scratch file.
void ExpectThatHarmIsUndone(uint64_t memory) {
  MadeLayer layer(1, {}, true);
  MadeNode& made = layer.made;
  HoldOutOwnOutputs(made);
  const std::vector<float> outputs = ValuesOf(*made.node.outputs);
  const RefittedExperts before = made.node.experts;
  for (const char* const step : {kRidgeStep, kRefillStep, kRouterStep, kTuneStep}) {
    SCOPED_TRACE(step);
    RefitOptions options = Only({step});
    options.memory = memory;
    const auto done = RefitNodeLayer(made.products(), options, layer.source(), made.node);
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_FALSE(done->outcome.accepted);
    EXPECT_EQ(done->outcome.error_after, done->outcome.error_before);
    EXPECT_FALSE(done->steps[0].kept);
    EXPECT_GT(done->steps[0].error, done->outcome.error_before);
    for (const RefittedArray& array : RefittedArrays()) {
      EXPECT_FALSE((before.*array.values).empty()) << array.name;
      EXPECT_EQ(made.node.experts.*array.values, before.*array.values) << array.name;
    }
    EXPECT_EQ(ValuesOf(*made.node.outputs), outputs);
  }
}

TEST(LayerRefit, DropsStepsThatHarmOnHeldOutText) {
  ExpectThatHarmIsUndone(RefitOptions().memory);
  ExpectThatHarmIsUndone(/*memory=*/200);
}

// Memory for what was before a step is not there, and the directory for it is not, either.
TEST(LayerRefit, NamesAScratchDirectoryThatIsNotThere) {
  MadeLayer layer(1, {}, true);
  RefitOptions options = Only({kRefillStep});
  options.memory = 200;
  options.scratch = "/nowhere";
  const auto done = RefitNodeLayer(layer.made.products(), options, layer.source(), layer.made.node);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::kNotFound);
  EXPECT_NE(done.error().message.find("/nowhere: cannot make a scratch file"), std::string::npos)
      << done.error().message;
}

// The down projections after one ridge regression on these tokens.
std::vector<float> DownAfterRidge(std::vector<float> fit_weights) {
  MadeNode made;
  made.TargetOthers(RandomExperts(made.shape(), 50));
  made.Run();
  made.node.fit_weights = std::move(fit_weights);
  EXPECT_TRUE(RidgeDown(made.products(), RefitOptions(), made.node));
  return made.node.experts.down;
}

TEST(LayerRefit, RepeatsARidgeThatHelpedOnAllText) {
  MadeNode made;
  made.TargetOthers(RandomExperts(made.shape(), 50));
  const std::vector<float> fit = made.node.fit_weights;
  const LayerOutcome done = Refit(made, Only({kRidgeStep}));
  ASSERT_TRUE(done.outcome.accepted);
  const std::vector<float> wanted = DownAfterRidge(std::vector<float>(fit.size(), 1));
  for (size_t i = 0; i < wanted.size(); ++i)
    ASSERT_NEAR(made.node.experts.down[i], wanted[i], 1e-4) << i;
  EXPECT_NE(made.node.experts.down, DownAfterRidge(fit));
  EXPECT_EQ(made.node.fit_weights, fit);
  const std::vector<float> outputs = ValuesOf(*made.node.outputs);
  ASSERT_TRUE(RunNode(made.products(), made.node));
  EXPECT_EQ(ValuesOf(*made.node.outputs), outputs) << "the outputs are not those of the experts";
}

TEST(LayerRefit, KeepsARidgeThatAnotherStepFollowed) {
  MadeNode made;
  made.TargetOthers(RandomExperts(made.shape(), 50));
  const std::vector<float> fit = made.node.fit_weights;
  const LayerOutcome done = Refit(made, Only({kRidgeStep, kRouterStep}));
  ASSERT_TRUE(done.steps[1].kept);
  EXPECT_EQ(made.node.experts.down, DownAfterRidge(fit));
}

TEST(LayerRefit, LeavesALayerInWhichNoExpertHasEnoughTokens) {
  MadeLayer layer(1, {}, true);
  MadeNode& made = layer.made;
  made.TargetOthers(RandomExperts(made.shape(), 50));
  made.node.least_tokens = made.node.tokens() + 1;
  made.Run();
  const RefittedExperts before = made.node.experts;
  const std::vector<float> outputs = ValuesOf(*made.node.outputs);
  RefitOptions options = Only({kRouterStep, kTuneStep});
  options.updates = 5;
  const auto done = RefitNodeLayer(made.products(), options, layer.source(), made.node);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_FALSE(done->outcome.accepted);
  EXPECT_EQ(done->outcome.error_after, done->outcome.error_before);
  EXPECT_GT(done->outcome.error_before, 0.01) << "there is something to gain";
  EXPECT_EQ(done->outcome.slot_tokens.size(), 4u);
  EXPECT_TRUE(done->steps.empty());
  for (const RefittedArray& array : RefittedArrays())
    EXPECT_EQ(made.node.experts.*array.values, before.*array.values) << array.name;
  EXPECT_EQ(ValuesOf(*made.node.outputs), outputs);
}

TEST(LayerRefit, RefitsNothingWithoutHeldOutText) {
  MadeNode made;
  made.TargetOthers(RandomExperts(made.shape(), 50));
  made.Run();
  const RefittedExperts before = made.node.experts;
  const std::vector<float> outputs = ValuesOf(*made.node.outputs);
  made.node.fold_weights.assign(made.node.tokens(), 0);
  const LayerOutcome done = Refit(made, Only({kRidgeStep}));
  EXPECT_FALSE(done.outcome.accepted);
  ASSERT_EQ(done.steps.size(), 1u);
  EXPECT_FALSE(done.steps[0].kept);
  EXPECT_EQ(made.node.experts.down, before.down);
  EXPECT_EQ(ValuesOf(*made.node.outputs), outputs);
}

}  // namespace
}  // namespace moepack::runtime
