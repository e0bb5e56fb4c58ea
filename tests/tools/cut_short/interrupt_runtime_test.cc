// Commands of the runtime leave nothing behind when they are interrupted.
#include <gmock/gmock.h>

#include "tests/tools/cut_short/interrupted_moepack.h"

namespace moepack::cli {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class InterruptedRuntime : public testing::TestWithParam<int> {
 protected:
  InterruptedRuntime() {
    const ToolRun built =
        workspace_.Moepack("build fixtures/tiny-moe --groups 3 -o out --no-verify");
    EXPECT_EQ(built.status, 0) << built.err;
    std::string text;
    for (int line = 0; line < 3000; ++line) text += "int main(void) { return 0; }\n";
    WriteAll(workspace_ / "long.c", text);
  }

  void ExpectNothingIsLeft(std::vector<std::string> arguments) const {
    const InterruptedRun run =
        Interrupt(workspace_, std::move(arguments), GetParam(), ReadsWeights);
    EXPECT_TRUE(run.reached);
    EXPECT_TRUE(run.ended);
    EXPECT_EQ(run.status, 130);
    EXPECT_THAT(run.err, HasSubstr("interrupted"));
    EXPECT_THAT(run.left, IsEmpty());
  }

  Workspace workspace_;
};

// check assembles each node in a temporary directory.
TEST_P(InterruptedRuntime, CheckRemovesTheNodeThatItAssembled) {
  const auto node = [](const RunningMoepack& running) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(running.scratch, ignored)) {
      if (std::filesystem::exists(entry.path() / "node", ignored)) return true;
    }
    return false;
  };
  const InterruptedRun run = Interrupt(workspace_, {"check", "out"}, GetParam(), node);
  EXPECT_TRUE(run.reached);
  EXPECT_TRUE(run.ended);
  EXPECT_EQ(run.status, 130);
  EXPECT_THAT(run.err, HasSubstr("interrupted"));
  EXPECT_THAT(run.left, IsEmpty());
}

TEST_P(InterruptedRuntime, CheckEndsAtTheFirstSignalWhileItLoads) {
  ExpectNothingIsLeft({"check", "out"});
}

TEST_P(InterruptedRuntime, RunEndsAtTheFirstSignal) {
  ExpectNothingIsLeft({"run", "out", "--prompt", "int main(", "-n", "4000"});
}

TEST_P(InterruptedRuntime, EvalEndsAtTheFirstSignal) {
  ExpectNothingIsLeft({"eval", "out", "--text", "long.c"});
}

TEST_P(InterruptedRuntime, ProfileEndsAtTheFirstSignal) {
  ExpectNothingIsLeft({"profile", "out", "--text", "long.c", "-o", "stats.json"});
  EXPECT_FALSE(std::filesystem::exists(workspace_ / "stats.json"));
}

// It measures rows of every matrix for all types that they may become.
TEST_P(InterruptedRuntime, PlanEndsAtTheFirstSignal) {
  ExpectNothingIsLeft({"plan", "fixtures/tiny-moe", "--groups", "3", "--budget", "5MB", "--jobs",
                       "1", "-o", "plan.json"});
  EXPECT_FALSE(std::filesystem::exists(workspace_ / "plan.json"));
}

INSTANTIATE_TEST_SUITE_P(Signals, InterruptedRuntime, testing::Values(SIGINT, SIGTERM),
                         [](const auto& signal) {
                           return std::string(signal.param == SIGINT ? "SIGINT" : "SIGTERM");
                         });

}  // namespace
}  // namespace moepack::cli
