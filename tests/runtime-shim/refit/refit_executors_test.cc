// A small refit on every executor, beside the same one on the cpu.
#include <gtest/gtest.h>

#include <cmath>

#include "fixtures/temp_dir.h"
#include "tests/runtime-shim/refit/tiny_refit.h"

namespace moepack::runtime {
namespace {

// Executors round differently, and what follows carries that on.
constexpr double kTolerance = 2e-3;

class RefitOn : public testing::TestWithParam<ExecutorKind> {
 protected:
  void SetUp() override {
    const auto opened = OpenExecutor(GetParam().name, {});
    if (!opened)
      GTEST_SKIP() << "SKIPPED executor " << GetParam().name << ": " << opened.error().message;
    emulated_ = (*opened)->description().starts_with("emulated");
  }
  void ExpectTheErrorsOfTheCpu(const RefitOptions& options) {
    const fixtures::TempDir directory;
    TinyRefit own("qwen3moe", 1, GetParam().name), cpu("qwen3moe", 1);
    const RefitRecord found = MustRun(own, directory / "own", options);
    const RefitRecord expected = MustRun(cpu, directory / "cpu", options);
    ASSERT_EQ(found.outcomes.size(), 4u);
    ASSERT_EQ(expected.outcomes.size(), 4u);
    size_t accepted = 0;
    for (size_t i = 0; i < found.outcomes.size(); ++i) {
      const RefitOutcome &a = found.outcomes[i], &b = expected.outcomes[i];
      EXPECT_NEAR(a.error_before, b.error_before, kTolerance) << i;
      EXPECT_NEAR(a.error_after, b.error_after, kTolerance) << i;
      accepted += a.accepted ? 1 : 0;
    }
    EXPECT_GE(accepted, 1u);
  }

  bool emulated_ = false;  // tests/runtime-shim/cuda_emulated
};

RefitOptions FewTokens(std::vector<std::string> steps) {
  RefitOptions options = SmallOptions();
  options.steps = std::move(steps);
  options.tokens = 320;
  options.updates = 2;
  return options;
}

TEST_P(RefitOn, HasTheErrorsOfTheCpu) {
  if (emulated_) GTEST_SKIP() << "fitting the router takes minutes on an emulated device";
  ExpectTheErrorsOfTheCpu(SmallOptions());
}

TEST_P(RefitOn, HasThemWithFewTokens) {
  ExpectTheErrorsOfTheCpu(FewTokens({kRidgeStep, kRefillStep, kTuneStep}));
}

TEST_P(RefitOn, HasThemWhereExpertsTakeTurnsToo) {
  RefitOptions options = FewTokens({kRidgeStep});
  options.memory = 40000;
  ExpectTheErrorsOfTheCpu(options);
}

INSTANTIATE_TEST_SUITE_P(, RefitOn, testing::ValuesIn(AllExecutorKinds()),
                         [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace
}  // namespace moepack::runtime
