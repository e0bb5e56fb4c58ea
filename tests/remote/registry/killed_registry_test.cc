// publish, pull and copy are killed at any point: the next run ends with the same digests, and
// before that nothing half-done is visible. In `make soak` (MOEPACK_SOAK is set) publish and pull
// are killed a hundred times each, and copy, which is made of the same parts, thirty times in each
// direction; otherwise fifteen and five times.
#include <gmock/gmock.h>

#include <chrono>
#include <cstdlib>
#include <random>

#include "libshard/base/digest.h"
#include "libshard/base/text/text.h"
#include "tests/remote/support/registry_commands.h"
#include "tests/tools/child_process.h"

namespace moepack::remote {
namespace {

namespace fs = std::filesystem;
using cli::ChildEnd;
using cli::ChildProcess;

const bool kSoak = std::getenv("MOEPACK_SOAK") != nullptr;
const int kKills = kSoak ? 100 : 15, kKillsOfCopies = kSoak ? 30 : 5;

class KilledRegistryRuns : public RegistryCommands {
 protected:
  void SetUp() override {
    RegistryCommands::SetUp();
    if (IsSkipped()) return;
    digest_ = Publish("out", Ref("v1"))["digest"];
  }
  // Starts moepack and kills it at a random moment within the duration of a whole run.
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
  // Whatever is visible under the tag of the set or of a view is complete.
  void ExpectWholeOrNothing(const std::string& set) {
    const std::string tag = random_() % 2 == 0 ? set : set + "-g001";
    const cli::ToolRun seen = workspace_.Moepack("pull " + tag + " --group 1 -o seen");
    EXPECT_TRUE(seen.status == 0 || seen.status == 5) << tag << "\n" << seen.err;
    fs::remove_all(workspace_ / "seen");
  }
  // Repeats a killed command that sends to `repository`: it ends with the same digests, and does
  // not resend any blob that arrived.
  void EndsInRegistry(const std::string& command, const std::string& repository) {
    ExpectWholeOrNothing(Ref("v1", repository));
    const std::set<std::string> there = registry_->BlobsOf(repository);
    const auto again = workspace_.Json(command + " --json");
    EXPECT_EQ(again["digest"], digest_);
    for (const auto& blob : again["blobs"]) {
      if (there.contains(blob["digest"])) {
        EXPECT_EQ(blob["how"], "there") << blob["blob"];
      }
    }
  }
  // The blobs of a layout, all of which match the digests in their names.
  std::set<std::string> BlobsOfLayout(const std::string& layout) const {
    std::set<std::string> names;
    std::error_code none;
    for (const auto& blob : fs::directory_iterator(workspace_ / layout / "blobs/sha256", none)) {
      const std::string name = blob.path().filename();
      EXPECT_EQ(Sha256Hex(cli::ReadFile(blob.path())), name);
      names.insert(name);
    }
    return names;
  }

  std::string digest_;  // of the set
  std::mt19937 random_{15};
  std::chrono::microseconds whole_{1};
};

TEST_F(KilledRegistryRuns, AKilledPublishIsCompletedByTheNext) {
  MeasureWhole({"publish", "out", Ref("v1", "whole/model")});
  int kills = 0;
  for (int i = 0; kills < kKills; ++i) {
    const std::string repository = Cat("team/model", i), reference = Ref("v1", repository);
    if (KilledRun({"publish", "out", reference}).signal == 0) continue;
    ++kills;
    EndsInRegistry("publish out " + reference, repository);
  }
}

TEST_F(KilledRegistryRuns, AKilledPullIsCompletedByTheNext) {
  MeasureWhole({"pull", Ref("v1"), "--group", "1", "-o", "whole"});
  const std::string content = Content("whole");
  int kills = 0;
  while (kills < kKills) {
    if (KilledRun({"pull", Ref("v1"), "--group", "1", "-o", "pulled"}).signal != 0) ++kills;
    // It may be killed several times before it completes.
    if (random_() % 3 == 0) continue;
    const ChildEnd end =
        ChildProcess(workspace_.path(), {"pull", Ref("v1"), "--group", "1", "-o", "pulled"}).Wait();
    ASSERT_EQ(end.status, 0) << end.err;
    EXPECT_TRUE(Content("pulled") == content);
    EXPECT_FALSE(fs::exists(workspace_ / "pulled.partial"));
    fs::remove_all(workspace_ / "pulled");
  }
}

TEST_F(KilledRegistryRuns, AKilledCopyToARegistryIsCompletedByTheNext) {
  Publish("out", "layout:models:v1");
  MeasureWhole({"copy", "layout:models:v1", Ref("v1", "whole/copy")});
  int kills = 0;
  for (int i = 0; kills < kKillsOfCopies; ++i) {
    const std::string repository = Cat("team/copy", i), reference = Ref("v1", repository);
    if (KilledRun({"copy", "layout:models:v1", reference}).signal == 0) continue;
    ++kills;
    EndsInRegistry("copy layout:models:v1 " + reference, repository);
  }
}

TEST_F(KilledRegistryRuns, AKilledCopyFromARegistryIsCompletedByTheNext) {
  MeasureWhole({"copy", Ref("v1"), "layout:whole"});
  const std::set<std::string> blobs = BlobsOfLayout("whole");
  int kills = 0;
  while (kills < kKillsOfCopies) {
    if (KilledRun({"copy", Ref("v1"), "layout:copied"}).signal != 0) ++kills;
    BlobsOfLayout("copied");
    ExpectWholeOrNothing("layout:copied:v1");
    // It may be killed several times before it completes.
    if (random_() % 3 == 0) continue;
    const auto again = workspace_.Json("copy " + Ref("v1") + " layout:copied --json");
    EXPECT_EQ(again["digest"], digest_);
    EXPECT_EQ(BlobsOfLayout("copied"), blobs);
    EXPECT_TRUE(fs::is_empty(workspace_ / "copied/ingest"));
    EXPECT_EQ(cli::ReadFile(workspace_ / "copied/index.json"),
              cli::ReadFile(workspace_ / "whole/index.json"));
    fs::remove_all(workspace_ / "copied");
  }
}

}  // namespace
}  // namespace moepack::remote
