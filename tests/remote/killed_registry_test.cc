// publish and pull are killed a hundred times each, wherever they are: the next run ends with the
// same digests, and before that nothing half-done is seen.
#include <gmock/gmock.h>

#include <chrono>
#include <random>

#include "tests/remote/support/registry_commands.h"
#include "tests/tools/child_process.h"

namespace moepack::remote {
namespace {

namespace fs = std::filesystem;
using cli::ChildEnd;
using cli::ChildProcess;

constexpr int kKills = 100;

class KilledRegistryRuns : public RegistryCommands {
 protected:
  void SetUp() override {
    RegistryCommands::SetUp();
    if (IsSkipped()) return;
    digest_ = Publish("out", Ref("v1"))["digest"];
  }
  // Starts moepack and kills it at a moment by chance of the time that a whole run takes.
  ChildEnd KilledRun(const std::vector<std::string>& arguments) {
    ChildProcess child(workspace_.path(), arguments);
    std::this_thread::sleep_for(
        std::chrono::microseconds(random_() % static_cast<unsigned>(whole_.count())));
    child.Kill(SIGKILL);
    return child.Wait();
  }
  void MeasureWhole(const std::vector<std::string>& arguments) {
    const auto start = std::chrono::steady_clock::now();
    const ChildEnd end = ChildProcess(workspace_.path(), arguments).Wait();
    ASSERT_EQ(end.status, 0) << end.err;
    whole_ = std::chrono::duration_cast<std::chrono::microseconds>(
        std::chrono::steady_clock::now() - start);
  }

  std::string digest_;  // of the set
  std::mt19937 random_{15};
  std::chrono::microseconds whole_{1};
};

TEST_F(KilledRegistryRuns, APublishThatWasKilledIsDoneByTheNext) {
  MeasureWhole({"publish", "out", Ref("v1", "whole/model")});
  int kills = 0;
  for (int i = 0; kills < kKills; ++i) {
    const std::string reference = Ref("v1", "team/model" + std::to_string(i));
    if (KilledRun({"publish", "out", reference}).signal == 0) continue;
    ++kills;
    // What is seen is whole: the tag of the set is the last thing that appears.
    const auto seen = workspace_.Moepack("pull " + reference + " --group 1 -o seen --dry-run");
    EXPECT_TRUE(seen.status == 0 || seen.status == 5) << seen.err;
    const auto again = Publish("out", reference);
    EXPECT_EQ(again["digest"], digest_);
  }
}

TEST_F(KilledRegistryRuns, APullThatWasKilledIsDoneByTheNext) {
  MeasureWhole({"pull", Ref("v1"), "--group", "1", "-o", "whole"});
  const std::string content = Content("whole");
  int kills = 0;
  while (kills < kKills) {
    if (KilledRun({"pull", Ref("v1"), "--group", "1", "-o", "pulled"}).signal != 0) ++kills;
    // It may be killed several times before it gets through.
    if (random_() % 3 == 0) continue;
    const ChildEnd end =
        ChildProcess(workspace_.path(), {"pull", Ref("v1"), "--group", "1", "-o", "pulled"}).Wait();
    ASSERT_EQ(end.status, 0) << end.err;
    EXPECT_TRUE(Content("pulled") == content);
    EXPECT_FALSE(fs::exists(workspace_ / "pulled.partial"));
    fs::remove_all(workspace_ / "pulled");
  }
}

}  // namespace
}  // namespace moepack::remote
