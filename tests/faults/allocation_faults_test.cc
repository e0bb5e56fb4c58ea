// Allocations, mappings and threads are refused one after the other: the command does its work or
// ends with status 1 and a message; no signal, no hang.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/faults/support/writing_commands.h"

namespace faults {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

// Of some ten thousand allocations of a run.
constexpr PointCounts kAllocations = {6, 200}, kRows = {2, 50}, kCalls = {4, 200};

std::string AllocationName(const testing::TestParamInfo<WritingCommand>& info) {
  return info.param.name;
}

void ExpectRightOrOutOfMemory(const WritingCommand& command, const std::filesystem::path& workspace,
                              const Fault& fault) {
  FaultRun run = RunCommand(command, workspace, fault);
  const std::string moment = command.name + ": " + fault.kinds + " " + std::to_string(fault.at) +
                             ", " + run.call + " of " + run.path + ": status " +
                             std::to_string(run.status) + "\n" + run.err;
  EXPECT_GT(run.faults, 0u) << moment;
  run.path.clear();  // memory has no place that a message could name
  EXPECT_EQ(ProblemOfRun(command, workspace, run), "") << moment;
  // Where a device has too little memory, status 7 says how much is needed.
  if (run.status != 0) {
    EXPECT_THAT(run.status, AnyOf(1, 7)) << moment;
    EXPECT_THAT(run.err, HasSubstr("memory")) << moment;
  }
}

class AllocationFaults : public testing::TestWithParam<WritingCommand> {
 protected:
  void SetUp() override {
    if (!CanFault()) GTEST_SKIP() << kNoFaults;
    ASSERT_EQ(SharedInputs().ProblemOf(GetParam()), "");
  }
  uint64_t CallsOf(const std::string& kinds) {
    const auto workspace = SharedInputs().Copy();
    return RunCommand(GetParam(), workspace->path(), {.kinds = kinds}).calls;
  }
  void RefuseEach(Fault fault, PointCounts counts) {
    const uint64_t calls = CallsOf(fault.kinds);
    ASSERT_GT(calls, 0u);
    for (const int64_t point : PointsOf(calls, counts, GetParam().name + fault.kinds)) {
      fault.at = point;
      ExpectRightOrOutOfMemory(GetParam(), SharedInputs().Copy()->path(), fault);
      ++tried_;
    }
    RecordProperty("points", tried_);
  }

  int tried_ = 0;
};

TEST_P(AllocationFaults, ARefusedAllocationEndsWithAMessage) {
  RefuseEach({.kinds = "alloc"}, kAllocations);
}

TEST_P(AllocationFaults, TenRefusedAllocationsInARowEndWithAMessage) {
  RefuseEach({.kinds = "alloc", .count = 10}, kRows);
}

TEST_P(AllocationFaults, RefusedThreadsDoNotChangeTheResult) {
  const auto workspace = SharedInputs().Copy();
  const FaultRun run =
      RunCommand(GetParam(), workspace->path(), {.kinds = "thread", .at = 0, .count = 1000});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(ProblemOfRun(GetParam(), workspace->path(), run), "");
}

// The kernel's own memory, and what the C library allocates inside a call such as opendir.
TEST_P(AllocationFaults, SystemCallsThatLackMemoryEndInASentence) {
  RefuseEach({.kinds = "open,read,write,stat,mkdir,mmap", .error = ENOMEM}, kCalls);
}

// Whole where the rest is a sample: the cheapest command, and the cheapest of those that pack.
class EveryAllocation : public testing::Test {
 protected:
  void SetUp() override {
    if (!CanFault()) GTEST_SKIP() << kNoFaults;
    if (!IsSoak()) GTEST_SKIP() << "only in a soak: it takes minutes";
  }
  void RefuseEach(const WritingCommand& command) {
    ASSERT_EQ(SharedInputs().ProblemOf(command), "");
    Fault fault{.kinds = "alloc"};
    const uint64_t calls = RunCommand(command, SharedInputs().Copy()->path(), fault).calls;
    ASSERT_GT(calls, 1000u);
    RecordProperty("points", static_cast<int>(calls));
    for (fault.at = 0; fault.at < static_cast<int64_t>(calls); ++fault.at)
      ExpectRightOrOutOfMemory(command, SharedInputs().Copy()->path(), fault);
  }
};

TEST_F(EveryAllocation, OfAPlanIsRefusedOnceInASoak) { RefuseEach(CommandOf("Plan")); }

TEST_F(EveryAllocation, OfAnAssemblyIsRefusedOnceInASoak) { RefuseEach(CommandOf("Assemble")); }

INSTANTIATE_TEST_SUITE_P(Commands, AllocationFaults, testing::ValuesIn(WritingCommands()),
                         AllocationName);

}  // namespace
}  // namespace faults
