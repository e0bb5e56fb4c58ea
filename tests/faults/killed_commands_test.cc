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
  // The number of such calls in a run that nothing ends.
  static uint64_t CallsOf(const std::string& kinds) {
    const FaultRun run =
        RunCommand(GetParam(), SharedInputs().Copy()->path(), {.kinds = kinds, .how = "kill"});
    EXPECT_EQ(run.status, 0) << run.err;
    return run.calls;
  }
  // False if the run made fewer calls and came to its end.
  static bool Kill(const std::string& kinds, uint64_t call) {
    const WritingCommand& command = GetParam();
    const Fault fault{.kinds = kinds, .how = "kill", .at = static_cast<int64_t>(call)};
    const auto workspace = SharedInputs().Copy();
    const FaultRun run = RunCommand(command, workspace->path(), fault);
    const std::string moment = command.name + ": call " + std::to_string(call) + " of " + kinds +
                               ", " + run.call + " of " + run.path;
    EXPECT_EQ(run.signal, run.faults > 0 ? SIGKILL : 0) << moment << "\n" << run.err;
    EXPECT_EQ(ProblemOfOutput(command, workspace->path()), "") << moment;
    EXPECT_EQ(ProblemOfRerun(command, workspace->path()), "") << moment;
    return run.signal == SIGKILL;
  }
};

TEST_P(KilledCommands, LeaveNothingHalfDoneAndFinishWhenRunAgain) {
  // Half of the kills are at calls that change something.
  const std::string kinds[] = {kFileCalls, kChangingCalls};
  const uint64_t calls[] = {CallsOf(kinds[0]), CallsOf(kinds[1])};
  ASSERT_GE(calls[0], calls[1]);
  ASSERT_GT(calls[1], 0u);
  fuzz::Random random(calls[0]);
  const size_t wanted = IsSoak() ? kManyKills : kFewKills;
  // A run may make a few calls less than the one that was counted: then another is drawn.
  const size_t draws = wanted + wanted / 10 + 3;
  size_t kills = 0;
  for (size_t draw = 0; draw < draws && kills < wanted; ++draw)
    kills += Kill(kinds[draw % 2], random.Below(calls[draw % 2])) ? 1 : 0;
  EXPECT_EQ(kills, wanted);
  RecordProperty("points", static_cast<int>(kills));
}

INSTANTIATE_TEST_SUITE_P(Commands, KilledCommands, testing::ValuesIn(WritingCommands()),
                         KilledName);
INSTANTIATE_TEST_SUITE_P(Clones, KilledCommands, testing::ValuesIn(CloningCommands()), KilledName);

}  // namespace
}  // namespace faults
