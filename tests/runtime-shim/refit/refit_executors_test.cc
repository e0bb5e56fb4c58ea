// A small refit on every executor, against the cpu.
#include <gtest/gtest.h>

#include <cmath>

#include "fixtures/temp_dir.h"
#include "tests/runtime-shim/refit/tiny_refit.h"

namespace moepack::runtime {
namespace {

// Executors round differently, and what follows carries that on.
constexpr double kTolerance = 2e-3;

RefitOptions FewSteps() {
  RefitOptions options = SmallOptions();
  options.steps = {kRidgeStep, kRefillStep, kRidgeStep};
  options.tokens = 300;
  return options;
}

class RefitOn : public testing::TestWithParam<ExecutorKind> {
 protected:
  void SetUp() override {
    const auto opened = OpenExecutor(GetParam().name, {});
    if (!opened)
      GTEST_SKIP() << "SKIPPED executor " << GetParam().name << ": " << opened.error().message;
  }
  void ExpectTheErrorsOfTheCpu(const RefitOptions& options) {
    const fixtures::TempDir directory;
    TinyRefit own("qwen3moe", 1, GetParam().name), cpu("qwen3moe", 1);
    const RefitRecord found = MustRun(own, directory / "own", options);
    const RefitRecord expected = MustRun(cpu, directory / "cpu", options);
    ASSERT_EQ(found.outcomes.size(), expected.outcomes.size());
    for (size_t i = 0; i < found.outcomes.size(); ++i) {
      const RefitOutcome &a = found.outcomes[i], &b = expected.outcomes[i];
      EXPECT_EQ(a.accepted, b.accepted) << i;
      EXPECT_NEAR(a.error_before, b.error_before, kTolerance) << i;
      EXPECT_NEAR(a.error_after, b.error_after, kTolerance) << i;
      EXPECT_LT(a.error_after, a.error_before) << i;
    }
  }
};

TEST_P(RefitOn, HasTheErrorsOfTheCpu) { ExpectTheErrorsOfTheCpu(FewSteps()); }

TEST_P(RefitOn, HasThemWhereExpertsTakeTurnsToo) {
  RefitOptions options = FewSteps();
  options.steps = {kRidgeStep};
  options.memory = 40000;
  ExpectTheErrorsOfTheCpu(options);
}

INSTANTIATE_TEST_SUITE_P(, RefitOn, testing::ValuesIn(AllExecutorKinds()),
                         [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace
}  // namespace moepack::runtime
