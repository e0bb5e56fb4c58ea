// Every file call fails once, in every command that writes: the output is right, or nothing of it
// is visible, and the message names a file. When the command is run again, it ends with the right
// output.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/faults/support/writing_commands.h"

namespace faults {
namespace {

// Points per command in a short run.
constexpr uint64_t kFewPoints = 2;

std::string NameOf(const testing::TestParamInfo<WritingCommand>& info) { return info.param.name; }

class FileFaults : public testing::TestWithParam<WritingCommand> {
 protected:
  void SetUp() override {
    if (!CanFault()) GTEST_SKIP() << kNoFaults;
    ASSERT_EQ(SharedInputs().ProblemOf(GetParam()), "");
  }
  // The number of calls in a run without failures.
  uint64_t CallsOf(const std::string& kinds) {
    const auto workspace = SharedInputs().Copy();
    const FaultRun run = RunCommand(GetParam(), workspace->path(), {.kinds = kinds});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(ProblemOfRun(GetParam(), workspace->path(), run), "");
    return run.calls;
  }
  void FailOnce(const Fault& fault) {
    const auto workspace = SharedInputs().Copy();
    FaultRun run = RunCommand(GetParam(), workspace->path(), fault);
    EXPECT_GT(run.faults, 0u) << GetParam().name << ": call " << fault.at;
    if (fault.count > 1) run.path.clear();  // the first that failed need not be what ended the run
    EXPECT_EQ(ProblemOfRun(GetParam(), workspace->path(), run), "")
        << GetParam().name << ": call " << fault.at << ", " << run.call << " of " << run.path
        << ": status " << run.status << "\n"
        << run.err;
    EXPECT_EQ(ProblemOfRerun(GetParam(), workspace->path()), "")
        << GetParam().name << ": call " << fault.at << ", " << run.call << " of " << run.path
        << ": status " << run.status << "\n"
        << run.err;
  }
  void FailEach(Fault fault) {
    const uint64_t calls = CallsOf(fault.kinds);
    if (calls == 0 && fault.kinds != kFileCalls) GTEST_SKIP() << "there are no such calls";
    ASSERT_GT(calls, 0u);
    for (const int64_t point :
         PointsOf(calls, {.few = kFewPoints}, GetParam().name + fault.kinds)) {
      fault.at = point;
      FailOnce(fault);
      ++tried_;
    }
    RecordProperty("points", tried_);
  }

  int tried_ = 0;
};

TEST_P(FileFaults, ACallThatFailsEndsInAnErrorOrTheRightOutput) { FailEach({.kinds = kFileCalls}); }

TEST_P(FileFaults, ADiskThatFillsUpAtAnyCallEndsInAnError) {
  FailEach({.kinds = "write,truncate,mkdir", .error = ENOSPC, .count = 1'000'000'000});
}

TEST_P(FileFaults, ADeviceThatFailsFromAnyCallOnEndsInAnError) {
  FailEach({.kinds = kFileCalls, .count = 1'000'000'000});
}

// A signal interrupts every second call, and reads and writes transfer half of their bytes.
TEST_P(FileFaults, InterruptedAndShortCallsChangeNothing) {
  const Fault faults[] = {{.kinds = "read,write,fsync", .error = EINTR, .every = 2},
                          {.kinds = "read,write", .how = "short", .every = 1}};
  for (const Fault& fault : faults) {
    const auto workspace = SharedInputs().Copy();
    const FaultRun run = RunCommand(GetParam(), workspace->path(), fault);
    EXPECT_GT(run.faults, 0u);
    EXPECT_EQ(run.status, 0) << run.call << " of " << run.path << ": " << run.err;
    EXPECT_EQ(ProblemOfRun(GetParam(), workspace->path(), run), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Commands, FileFaults, testing::ValuesIn(WritingCommands()), NameOf);
INSTANTIATE_TEST_SUITE_P(Clones, FileFaults, testing::ValuesIn(CloningCommands()), NameOf);

// Without this, what is called Clones above could be copies.
TEST(Clones, AreMadeByEveryCommandThatIsRunWithThem) {
  if (!CanFault()) GTEST_SKIP() << kNoFaults;
  for (const WritingCommand& command : CloningCommands()) {
    const FaultRun run = RunCommand(command, SharedInputs().Copy()->path(), {.kinds = "clone"});
    EXPECT_EQ(run.status, 0) << command.name << ": " << run.err;
    EXPECT_GT(run.calls, 0u) << command.name;
  }
}

}  // namespace
}  // namespace faults
