// `verify --resume` writes notes, but no output: whatever fails or is killed, the distribution
// stays as it is, the next run ends well, and a damaged file is never passed over.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>

#include "tests/faults/support/writing_commands.h"
#include "tests/tools/child_process.h"

namespace faults {
namespace {

using moepack::cli::ChildEnd;
using moepack::cli::ChildProcess;
namespace fs = std::filesystem;

const std::vector<std::string> kVerify = {"verify", "dist", "--resume", "notes", "-j", "1"};
constexpr int kMismatch = 6;

class ResumedVerification : public testing::Test {
 protected:
  void SetUp() override {
    if (!CanFault()) GTEST_SKIP() << kNoFaults;
    ASSERT_EQ(SharedInputs().ProblemOf(CommandOf("Plan")), "");
  }
  static ChildEnd Verify(const fs::path& workspace) {
    return ChildProcess(workspace, kVerify).Wait();
  }
  // Lets each of some calls fail, or be the end.
  void TryEach(Fault fault, PointCounts counts) {
    const uint64_t calls = RunWithFault(SharedInputs().Copy()->path(), kVerify, fault).calls;
    ASSERT_GT(calls, 0u);
    const std::vector<int64_t> points = PointsOf(calls, counts, "verify" + fault.how);
    for (const int64_t point : points) {
      fault.at = point;
      Try(fault);
    }
    RecordProperty("points", static_cast<int>(points.size()));
  }
  void Try(const Fault& fault) {
    const auto workspace = SharedInputs().Copy();
    const Tree before = ReadTree(workspace->path() / "dist");
    const FaultRun run = RunWithFault(workspace->path(), kVerify, fault);
    const std::string moment = fault.how + " " + std::to_string(fault.at) + ", " + run.call +
                               " of " + run.path + ": status " + std::to_string(run.status) + "\n" +
                               run.err;
    EXPECT_TRUE(run.signal == 0 || (fault.how == "kill" && run.signal == SIGKILL)) << moment;
    EXPECT_LE(run.status, 7) << moment;
    EXPECT_TRUE(ReadTree(workspace->path() / "dist") == before) << moment;
    ExpectDamageIsFound(workspace->path(), moment);
    const ChildEnd again = Verify(workspace->path());
    EXPECT_EQ(again.status, 0) << moment << again.err;
    EXPECT_FALSE(fs::exists(workspace->path() / "notes")) << moment;
  }
  // With the notes that are there, and mends the damage again.
  static void ExpectDamageIsFound(const fs::path& workspace, const std::string& moment) {
    const fs::path file = workspace / "dist/trunk/trunk.gguf";
    const std::string bytes = fixtures::ReadFile(file);
    std::string damaged = bytes;
    damaged.back() = static_cast<char>(damaged.back() ^ 1);
    std::ofstream(file, std::ios::binary) << damaged;
    EXPECT_EQ(Verify(workspace).status, kMismatch) << moment;
    std::ofstream(file, std::ios::binary) << bytes;
  }
};

TEST_F(ResumedVerification, ACallThatFailsCostsOnlyTime) {
  TryEach({.kinds = kFileCalls}, {.few = 12});
}

TEST_F(ResumedVerification, AKillCostsOnlyTime) {
  TryEach({.kinds = kFileCalls, .how = "kill"}, {.few = 12, .many = 100});
}

}  // namespace
}  // namespace faults
