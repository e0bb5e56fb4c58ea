// Disks that are full while others have room: the scratch directory of a refit or a calibration,
// whole or as a task, and the layout that is published to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "tests/faults/support/writing_commands.h"
#include "tests/tools/child_process.h"

namespace faults {
namespace {

using moepack::cli::ChildEnd;
using moepack::cli::ChildProcess;
using testing::HasSubstr;
namespace fs = std::filesystem;

struct ScratchCase {
  const char* name;
  const char* like;                  // a command of WritingCommands
  const char* memory;                // the least
  int tokens;                        // whose rows do not fit into half of it
  std::vector<const char*> outputs;  // paths
};
std::ostream& operator<<(std::ostream& out, const ScratchCase& one) { return out << one.name; }

const ScratchCase kScratchCases[] = {
    {"Refit", "RefitStore", "16MB", 8192, {"made"}},
    {"RefitTask", "RefitTask", "16MB", 8192, {"made.tasks"}},
    {"Calibration", "QuantizeCalibrated", "1MiB", 1024, {"made.gguf", "made.gguf.calibrated"}},
    {"CalibrationTask",
     "CalibrateTask",
     "1MiB",
     1024,
     {"shared.gguf.tasks", "shared.gguf.calibrated", "shared.gguf.calibrated.tasks"}},
};

class FullScratch : public testing::TestWithParam<ScratchCase> {
 protected:
  void SetUp() override {
    if (!CanFault()) GTEST_SKIP() << kNoFaults;
    ASSERT_EQ(SharedInputs().ProblemOf(CommandOf(GetParam().like)), "");
    before_ = SharedInputs().Copy();
    std::ofstream ids(*before_ / "ids.txt");
    for (int i = 0; i < GetParam().tokens; ++i) ids << (i * 7 + i / 5) % 90 + 3 << " ";
    ids.close();
    fs::create_directory(*before_ / "scratch");
    if (GetParam().like == std::string("CalibrateTask")) PrepareOtherTask();
  }
  static std::vector<std::string> Words() {
    std::vector<std::string> words = CommandOf(GetParam().like).arguments;
    words.insert(words.end(), {"--memory", GetParam().memory, "--scratch", "scratch"});
    return words;
  }
  // What the other task hands over is there, so that nobody waits for it.
  void PrepareOtherTask() const {
    fs::remove_all(*before_ / "shared.gguf.calibrated.tasks");
    std::vector<std::string> others = Words();
    std::replace(others.begin(), others.end(), std::string("0/2"), std::string("1/2"));
    ChildProcess other(before_->path(), others);
    const ChildEnd own = ChildProcess(before_->path(), Words()).Wait();
    ASSERT_EQ(own.status, 0) << own.err;
    ASSERT_EQ(other.Wait().status, 0);
    for (const char* made : {"shared.gguf.calibrated", "shared.gguf.tasks",
                             "shared.gguf.calibrated.tasks/00000-of-00002"})
      fs::remove_all(*before_ / made);
  }
  std::unique_ptr<fixtures::TempDir> Copy() const {
    auto copy = std::make_unique<fixtures::TempDir>();
    fs::copy(before_->path(), copy->path(), fs::copy_options::recursive);
    return copy;
  }
  static Tree Outputs(const fs::path& workspace) {
    Tree all;
    for (const char* output : GetParam().outputs) {
      for (const auto& [name, bytes] : ReadTree(workspace / output))
        all[std::string(output) + "/" + name] = bytes;
    }
    return all;
  }
  static FaultRun RunFrom(const fs::path& workspace, int64_t call) {
    return RunWithFault(workspace, Words(),
                        {.kinds = "write,truncate",
                         .error = ENOSPC,
                         .at = call,
                         .count = 1'000'000'000,
                         .below = "scratch"});
  }

  std::unique_ptr<fixtures::TempDir> before_;
};

TEST_P(FullScratch, EndsWithItsNameAndTheNextRunGoesOn) {
  const auto whole = Copy();
  const FaultRun right = RunFrom(whole->path(), -1);
  ASSERT_EQ(right.status, 0) << right.err;
  ASSERT_GT(right.calls, 2u) << "nothing was written there";
  const Tree golden = Outputs(whole->path());
  const auto calls = static_cast<int64_t>(right.calls);
  for (const int64_t call : {int64_t{0}, calls / 2, calls - 1}) {
    const auto workspace = Copy();
    const FaultRun full = RunFrom(workspace->path(), call);
    EXPECT_EQ(full.status, 5) << full.err;
    EXPECT_THAT(full.err, HasSubstr("scratch/moepack-rows-"));
    EXPECT_THAT(full.err, HasSubstr("hint: free some space"));
    EXPECT_TRUE(fs::is_empty(*workspace / "scratch"));
    const ChildEnd again = ChildProcess(workspace->path(), Words()).Wait();
    EXPECT_EQ(again.status, 0) << again.err;
    // What was whole when the disk was full is kept.
    if (call == calls - 1) {
      EXPECT_THAT(again.err, HasSubstr("; done before"));
    }
    EXPECT_EQ(DifferenceOf(Outputs(workspace->path()), golden), "") << call;
  }
}

INSTANTIATE_TEST_SUITE_P(Shares, FullScratch, testing::ValuesIn(kScratchCases),
                         [](const auto& one) { return one.param.name; });

// Blobs that no tag leads to would stay until gc.
TEST(FullLayout, HasTheBlobsThatItHadBefore) {
  if (!CanFault()) GTEST_SKIP() << kNoFaults;
  const auto start = SharedInputs().Copy();
  const ChildEnd first =
      ChildProcess(start->path(), {"publish", "dist", "layout:made:v1", "--link", "copy"}).Wait();
  ASSERT_EQ(first.status, 0) << first.err;
  const auto publish = [&](const fs::path& workspace, int64_t call) {
    return RunWithFault(
        workspace, {"publish", "other", "layout:made:v2", "--link", "copy"},
        {.kinds = "write,truncate", .error = ENOSPC, .at = call, .count = 1'000'000'000});
  };
  const auto copy = [&] {
    auto made = std::make_unique<fixtures::TempDir>();
    fs::copy(start->path(), made->path(), fs::copy_options::recursive);
    return made;
  };
  const Tree before = ReadTree(*start / "made/blobs");
  const FaultRun whole = publish(copy()->path(), -1);
  ASSERT_EQ(whole.status, 0) << whole.err;
  size_t taken_back = 0;
  for (const int64_t call : PointsOf(whole.calls, {.few = 12}, "layout")) {
    const auto workspace = copy();
    const FaultRun full = publish(workspace->path(), call);
    EXPECT_EQ(full.status, 5) << full.err;
    // Once index.json is written, blobs may be named there.
    if (full.path.find("index.json") != full.path.npos) continue;
    EXPECT_EQ(DifferenceOf(ReadTree(*workspace / "made/blobs"), before), "")
        << full.call << " of " << full.path;
    ++taken_back;
  }
  EXPECT_GT(taken_back, 8u);
}

}  // namespace
}  // namespace faults
