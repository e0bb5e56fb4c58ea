#include "tools/options/refit_arguments.h"

#include <gtest/gtest.h>

namespace moepack::cli {
namespace {

std::string Refusal(const runtime::RefitOptions& options) {
  const Status checked = CheckRefitSteps(options);
  return checked ? "" : checked.error().message;
}

TEST(RefitArguments, TheUsualStepsUseAllOptions) {
  runtime::RefitOptions options;
  EXPECT_EQ(Refusal(options), "");
  options.updates = 5;
  options.lambda = 0.1;
  options.pool = 5;
  options.sweeps = 5;
  EXPECT_EQ(Refusal(options), "");
}

TEST(RefitArguments, OptionsOfStepsThatAreNotTakenAreRefused) {
  runtime::RefitOptions options;
  options.steps = {"ridge"};
  EXPECT_EQ(Refusal(options), "");
  options.updates = 5;
  EXPECT_EQ(Refusal(options), "--updates has no effect: --steps has no tune");
  options.updates = 300;
  options.pool = 5;
  EXPECT_EQ(Refusal(options), "--pool has no effect: --steps has no refill");
  options.pool = 0;
  options.steps = {"tune"};
  options.sweeps = 5;
  EXPECT_EQ(Refusal(options), "--sweeps has no effect: --steps has no ridge");
  options.lambda = 0.1;
  EXPECT_EQ(Refusal(options), "--lambda has no effect: --steps has no ridge and no refill");
}

TEST(RefitArguments, AStepThatDoesNotExistIsRefused) {
  runtime::RefitOptions options;
  options.steps = {"ridge", "bake"};
  EXPECT_NE(Refusal(options), "");
}

}  // namespace
}  // namespace moepack::cli
