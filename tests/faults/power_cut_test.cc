// The power is cut at every moment of a run: what is visible under the output's name is complete,
// is what was there before, or is absent, and the command run again ends with the right output.
// Whatever a command reported as done is done.
#include "tests/faults/support/power_cut.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace faults {
namespace {

std::string PowerName(const testing::TestParamInfo<WritingCommand>& info) {
  return info.param.name;
}

// Moments per command from which it is run again, in a short run.
constexpr uint64_t kFewReruns = 2, kManyReruns = 50;
constexpr uint64_t kSeeds = 3;

class PowerCut : public testing::TestWithParam<WritingCommand> {
 protected:
  void SetUp() override {
    if (!CanFault()) GTEST_SKIP() << kNoFaults;
    ASSERT_EQ(SharedInputs().ProblemOf(GetParam()), "");
    workspace_ = SharedInputs().Copy();
    disk_ = std::make_unique<Disk>(workspace_->path());
    const fixtures::TempDir logs;
    const FaultRun run = RunCommand(GetParam(), workspace_->path(), {.kinds = ""}, logs / "log");
    ASSERT_EQ(run.status, 0) << run.err;
    ASSERT_EQ(ProblemOfRun(GetParam(), workspace_->path(), run), "");
    golden_ = OutputOf(GetParam(), workspace_->path());
    records_ = ReadLog(logs / "log", workspace_->path());
    ASSERT_GT(records_.size(), 0u);
  }
  // Little changes between two writes, so only some of those moments are checked.
  bool IsWorthALook(size_t record) const {
    return record == 0 || records_[record - 1].op != "write" || record % 16 == 0;
  }
  std::string ProblemNow(Luck luck, uint64_t seed) const {
    const Disk::View view = disk_->After(luck, seed, GetParam().output);
    WritingCommand command = GetParam();
    command.is_random = false;  // all moments are of one run
    return ProblemOfFiles(command, view.there, view.files, golden_);
  }
  std::string ProblemOfAnyLuck(uint64_t seed) const {
    for (const Luck luck :
         {Luck::kNothing, Luck::kNamesAlone, Luck::kSizesAlone, Luck::kSome, Luck::kEverything}) {
      const std::string problem = ProblemNow(luck, seed);
      if (!problem.empty())
        return "luck " + std::to_string(static_cast<int>(luck)) + ": " + problem;
    }
    return "";
  }
  std::string ProblemOfRerunAfter(Luck luck, uint64_t seed) const {
    const fixtures::TempDir after;
    disk_->WriteAfter(luck, seed, after.path());
    return ProblemOfRerun(GetParam(), after.path());
  }

  std::unique_ptr<fixtures::TempDir> workspace_;
  std::unique_ptr<Disk> disk_;
  std::vector<LogRecord> records_;
  Tree golden_;  // of this run
};

TEST_P(PowerCut, LeavesTheOldOutputTheNewOneOrNoneAtAnyMoment) {
  const std::vector<int64_t> reruns =
      PointsOf(records_.size(), {kFewReruns, kManyReruns}, GetParam().name + "power");
  RecordProperty("points", static_cast<int>(records_.size()));
  for (size_t i = 0; i < records_.size(); ++i) {
    const std::string moment = GetParam().name + ": before record " + std::to_string(i) + ", " +
                               records_[i].op + " " + records_[i].a + " " + records_[i].b;
    for (uint64_t seed = 0; IsWorthALook(i) && seed < kSeeds; ++seed)
      ASSERT_EQ(ProblemOfAnyLuck(i * kSeeds + seed), "") << moment;
    if (std::binary_search(reruns.begin(), reruns.end(), static_cast<int64_t>(i))) {
      EXPECT_EQ(ProblemOfRerunAfter(Luck::kSome, i), "") << moment;
    }
    disk_->Apply(records_[i]);
  }
}

TEST_P(PowerCut, LosesNothingThatACommandReportedAsDone) {
  for (const LogRecord& record : records_) disk_->Apply(record);
  // The model agrees with the operating system.
  EXPECT_EQ(disk_->After(Luck::kEverything, 0, GetParam().output).files, golden_);
  Disk::View least = disk_->After(Luck::kNothing, 0, GetParam().output);
  // Removed files may be back: gc will remove them again.
  std::erase_if(least.files, [&](const auto& file) { return !golden_.contains(file.first); });
  EXPECT_EQ(DifferenceOf(least.files, golden_), "");
}

INSTANTIATE_TEST_SUITE_P(Commands, PowerCut, testing::ValuesIn(WritingCommands()), PowerName);
INSTANTIATE_TEST_SUITE_P(Clones, PowerCut, testing::ValuesIn(CloningCommands()), PowerName);

}  // namespace
}  // namespace faults
