// SIGKILL before any file call, or in the middle of a write: nothing half-written is visible under
// the output's name, and the command run again ends with the right output.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "tests/faults/support/writing_commands.h"
#include "tests/fuzz/mutation.h"

namespace faults {
namespace {

constexpr size_t kFewKills = 3, kManyKills = 100;

std::string KilledName(const testing::TestParamInfo<WritingCommand>& info) {
  return info.param.name;
}

class KilledCommands : public testing::TestWithParam<WritingCommand> {
 protected:
  void SetUp() override {
    if (!CanFault()) GTEST_SKIP() << kNoFaults;
    ASSERT_EQ(SharedInputs().ProblemOf(GetParam()), "");
  }
};

TEST_P(KilledCommands, LeaveNothingHalfDoneAndFinishWhenRunAgain) {
  const WritingCommand& command = GetParam();
  Fault fault = {.kinds = kFileCalls, .how = "kill"};
  const uint64_t calls =
      RunWithFault(SharedInputs().Copy()->path(), command.arguments, {.kinds = kFileCalls}).calls;
  ASSERT_GT(calls, 0u);
  fuzz::Random random(calls);
  const size_t kills = IsSoak() ? kManyKills : kFewKills;
  RecordProperty("points", static_cast<int>(kills));
  for (size_t seed = 0; seed < kills; ++seed) {
    // Half of the kills are at calls that change something.
    fault.kinds = seed % 2 == 0 ? kFileCalls : kChangingCalls;
    fault.at = static_cast<int64_t>(random.Below(seed % 2 == 0 ? calls : calls / 2 + 1));
    const auto workspace = SharedInputs().Copy();
    const FaultRun run = RunWithFault(workspace->path(), command.arguments, fault);
    const std::string moment = command.name + ": call " + std::to_string(fault.at) + " of " +
                               fault.kinds + ", " + run.call + " of " + run.path;
    EXPECT_TRUE(run.signal == SIGKILL || run.faults == 0) << moment << "\n" << run.err;
    EXPECT_EQ(ProblemOfOutput(command, workspace->path()), "") << moment;
    EXPECT_EQ(ProblemOfRerun(command, workspace->path()), "") << moment;
  }
}

INSTANTIATE_TEST_SUITE_P(Commands, KilledCommands, testing::ValuesIn(WritingCommands()),
                         KilledName);

}  // namespace
}  // namespace faults
