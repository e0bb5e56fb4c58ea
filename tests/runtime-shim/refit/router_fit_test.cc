#include "runtime-shim/refit/router_fit.h"

#include <gtest/gtest.h>

#include "tests/runtime-shim/refit/made_node.h"

namespace moepack::runtime {
namespace {

RouterOptions ShortFit() {
  RouterOptions options;
  options.steps = 60;
  options.rate = 0.02;
  options.batch = 128;
  return options;
}

// The targets are the outputs of the same experts with another router.
void AskForAnotherRouter(MadeNode& made) {
  RefittedExperts others = made.node.experts;
  const std::vector<float> change = RandomFloats(others.router.size(), 77, 0.5);
  for (size_t i = 0; i < change.size(); ++i) others.router[i] += change[i];
  made.TargetOthers(others);
  made.Run();
}

void Fit(MadeNode& made) {
  const Status done = FitRouter(made.products(), ShortFit(), made.node);
  ASSERT_TRUE(done) << done.error().message;
}

class RouterFitOf : public testing::TestWithParam<Gating> {};

TEST_P(RouterFitOf, GatesGetsCloserToTheTargets) {
  MadeNode made;
  made.node.routing.gating = GetParam();
  AskForAnotherRouter(made);
  const double before = made.FitError();
  Fit(made);
  made.Run();
  EXPECT_LT(made.FitError(), 0.7 * before);
}

INSTANTIATE_TEST_SUITE_P(Every, RouterFitOf,
                         testing::Values(Gating::kSoftmax, Gating::kSigmoid,
                                         Gating::kSoftmaxAfterTopK, Gating::kSigmoidAfterTopK,
                                         Gating::kSqrtSoftplus));

TEST(RouterFit, KeepsTheRowsOfFixedExperts) {
  MadeNode made;
  made.node.fixed[2] = true;
  AskForAnotherRouter(made);
  const std::vector<float> before = made.node.experts.router;
  Fit(made);
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(made.node.experts.router[i] == before[i], i / made.shape().hidden == 2) << i;
}

TEST(RouterFit, FitsTheBiasOfTheLogits) {
  MadeNode made;
  made.node.experts.router_bias = {0, 0, 0, 0};
  RefittedExperts others = made.node.experts;
  others.router_bias = {0.5f, -0.5f, 0.25f, 0};
  made.TargetOthers(others);
  made.Run();
  const double before = made.FitError();
  Fit(made);
  made.Run();
  EXPECT_LT(made.FitError(), 0.7 * before);
  EXPECT_GT(made.node.experts.router_bias[0], made.node.experts.router_bias[1]);
}

TEST(RouterFit, SearchesForTheSelectionBias) {
  MadeNode made;
  made.node.routing.gating = Gating::kSigmoid;
  made.node.experts.selection_bias = {0, 0, 0, 0};
  RefittedExperts others = made.node.experts;
  others.selection_bias = {0.4f, 0, 0, 0};
  made.TargetOthers(others);
  made.Run();
  const double before = made.FitError();
  Fit(made);
  made.Run();
  EXPECT_LT(made.FitError(), 0.7 * before);
  EXPECT_NE(made.node.experts.selection_bias, std::vector<float>(4, 0));
}

TEST(RouterFit, KeepsGatesThatWeighInputs) {
  MadeNode made;
  made.node.form.weigh_inputs = true;
  AskForAnotherRouter(made);
  const std::vector<float> before = made.node.experts.router;
  Fit(made);
  EXPECT_EQ(made.node.experts.router, before);
}

TEST(RouterFit, BitsDoNotDependOnThreads) {
  MadeNode one({}, 1), three({}, 3);
  for (MadeNode* made : {&one, &three}) {
    AskForAnotherRouter(*made);
    Fit(*made);
  }
  EXPECT_EQ(one.node.experts.router, three.node.experts.router);
}

}  // namespace
}  // namespace moepack::runtime
