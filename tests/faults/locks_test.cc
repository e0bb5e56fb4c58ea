// File systems without locks: tasks run there, and of two processes with the same task both end
// well, whichever is first.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/faults/support/writing_commands.h"
#include "tests/tools/child_process.h"

namespace faults {
namespace {

using moepack::cli::ChildEnd;
using moepack::cli::ChildProcess;
using testing::HasSubstr;
namespace fs = std::filesystem;

// flock says this, or grants everything.
const Fault kWithoutLocks[] = {{.kinds = "lock", .error = ENOSYS, .every = 1},
                               {.kinds = "lock", .error = EOPNOTSUPP, .every = 1},
                               {.kinds = "lock", .error = ENOLCK, .every = 1},
                               {.kinds = "lock", .how = "short", .every = 1}};
constexpr int kRounds = 12;

class Locks : public testing::Test {
 protected:
  void SetUp() override {
    if (!CanFault()) GTEST_SKIP() << kNoFaults;
    ASSERT_EQ(SharedInputs().ProblemOf(task_), "");
    workspace_ = SharedInputs().Copy();
  }
  std::unique_ptr<ChildProcess> Start(const Fault& fault) const {
    return std::make_unique<ChildProcess>(workspace_->path(), task_.arguments, [&] {
      PrepareFault(fault, fs::canonical(workspace_->path()), "");
    });
  }
  // The task is whole, and nothing is left beside it.
  void ExpectDone(const std::string& moment) const {
    EXPECT_EQ(DifferenceOf(OutputOf(task_, workspace_->path()), SharedInputs().Golden(task_)), "")
        << moment;
    const fs::path tasks = (workspace_->path() / task_.output).parent_path();
    EXPECT_EQ(std::distance(fs::directory_iterator(tasks), fs::directory_iterator()), 1) << moment;
  }

  const WritingCommand& task_ = CommandOf("BuildTask");
  std::unique_ptr<fixtures::TempDir> workspace_;
};

TEST_F(Locks, ATaskIsWrittenWhereThereAreNone) {
  for (const Fault& fault : kWithoutLocks) {
    workspace_ = SharedInputs().Copy();
    const ChildEnd end = Start(fault)->Wait();
    EXPECT_EQ(end.status, 0) << fault.how << " " << fault.error << "\n" << end.err;
    ExpectDone(fault.how);
  }
}

TEST_F(Locks, TheSameTaskTwiceAtOnceEndsWellTwiceWhereThereAreNone) {
  for (const Fault& fault : kWithoutLocks) {
    for (int round = 0; round < kRounds; ++round) {
      workspace_ = SharedInputs().Copy();
      const auto one = Start(fault), other = Start(fault);
      const ChildEnd ends[] = {one->Wait(), other->Wait()};
      for (const ChildEnd& end : ends) EXPECT_EQ(end.status, 0) << end.err;
      ExpectDone(fault.how + " " + std::to_string(round));
    }
  }
}

TEST_F(Locks, WithLocksTheSecondOfTheSameTaskIsRefusedOrHasNothingToDo) {
  const Fault none{.kinds = "lock"};
  for (int round = 0; round < kRounds; ++round) {
    workspace_ = SharedInputs().Copy();
    const auto one = Start(none), other = Start(none);
    const ChildEnd ends[] = {one->Wait(), other->Wait()};
    EXPECT_TRUE(ends[0].status == 0 || ends[1].status == 0) << ends[0].err << ends[1].err;
    for (const ChildEnd& end : ends) {
      if (end.status == 0) continue;
      EXPECT_EQ(end.status, 5);
      EXPECT_THAT(end.err, HasSubstr("another process is writing it"));
    }
    ExpectDone(std::to_string(round));
  }
}

TEST_F(Locks, WhatAKilledTaskLeftIsTakenUpWhereThereAreNone) {
  Fault granted = kWithoutLocks[3];
  for (int round = 0; round < kRounds; ++round) {
    workspace_ = SharedInputs().Copy();
    const auto killed = Start(granted);
    std::this_thread::sleep_for(std::chrono::milliseconds(2 * round + 1));
    killed->Kill(SIGKILL);
    killed->Wait();
    const ChildEnd end = Start(granted)->Wait();
    EXPECT_EQ(end.status, 0) << end.err;
    ExpectDone(std::to_string(round));
  }
}

}  // namespace
}  // namespace faults
