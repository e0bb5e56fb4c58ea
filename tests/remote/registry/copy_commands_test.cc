// copy, tag, inspect and diff with real registries: what is sent, and that digests stay the same.
#include <gmock/gmock.h>

#include "tests/remote/support/registry_commands.h"

namespace moepack::remote {
namespace {

using testing::HasSubstr;

class CopyCommands : public RegistryCommands {
 protected:
  void SetUp() override {
    RegistryCommands::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    other_.emplace(workspace_ / "other-registry");
    ASSERT_TRUE(other_->started()) << other_->Log();
    Runs("keygen -o sign-key");
    published_ = Publish("out", "layout:models:v1");
    Runs("sign layout:models:v1 --key sign-key.key");
  }
  std::string OtherRef(const std::string& tag) const {
    return "oci://" + other_->host() + "/team/copy:" + tag;
  }
  nlohmann::json Copy(const std::string& from, const std::string& to) const {
    return workspace_.Json("copy " + from + " " + to + " --json");
  }
  std::optional<DockerRegistry> other_;
  nlohmann::json published_;
};

TEST_F(CopyCommands, CopiesKeepDigestsAndSignaturesAcrossLayoutsAndRegistries) {
  const auto sent = Copy("layout:models:v1", Ref("v1"));
  EXPECT_EQ(sent["digest"], published_["digest"]);
  EXPECT_EQ(sent["tags"].size(), 8u) << "a set and three views, each with a signature";
  EXPECT_GT(sent["bytes_sent"], 7'000'000);
  const auto on = Copy(Ref("v1"), OtherRef("stable"));
  EXPECT_EQ(on["bytes_sent"], sent["bytes_sent"]);
  const auto back = Copy(OtherRef("stable"), "layout:back");
  EXPECT_EQ(back["digest"], published_["digest"]);
  EXPECT_EQ(back["tags"].size(), 8u);
  EXPECT_GT(back["bytes_fetched"], 7'000'000);
  Runs("pull layout:back:stable --group 2 --key sign-key.pub -o pulled");
  Runs("verify pulled --group 2");
  const auto page = workspace_.Json("inspect " + OtherRef("stable") + " --json");
  EXPECT_EQ(page["signatures"]["count"], 1);
  EXPECT_EQ(page["tags"], nlohmann::json({"stable"}));
  EXPECT_EQ(workspace_.Moepack("diff " + Ref("v1") + " layout:back:stable --exit-code").status, 0);
}

TEST_F(CopyCommands, ASecondCopySendsNothing) {
  Copy("layout:models:v1", Ref("v1"));
  SettleLog();
  registry_->Forget();
  const auto again = Copy("layout:models:v1", Ref("v1"));
  EXPECT_EQ(again["bytes_sent"], 0);
  EXPECT_EQ(again["bytes_new"], 0);
  SettleLog();
  EXPECT_EQ(UploadsBegun(), 0u);
}

TEST_F(CopyCommands, ADryRunSendsNothingAndCountsTheSameBytes) {
  const auto dry = workspace_.Json("copy layout:models:v1 " + Ref("v1") + " --dry-run --json");
  // The last lines of the log are written after the replies.
  EXPECT_EQ(workspace_.Moepack("ls oci://" + registry_->host() + "/team/model").status, 5);
  EXPECT_EQ(UploadsBegun(), 0u);
  EXPECT_EQ(dry["bytes_new"], Copy("layout:models:v1", Ref("v1"))["bytes_new"]);
}

TEST_F(CopyCommands, AddsTagsInARegistryButRemovesNone) {
  Copy("layout:models:v1", Ref("v1"));
  Runs("tag " + Ref("v1") + " stable");
  EXPECT_EQ(workspace_.Json("inspect " + Ref("stable-g001") + " --json")["what"], "node");
  const auto refused = workspace_.Moepack("tag " + Ref("v1-g000") + " stable");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("--force"));
  EXPECT_EQ(workspace_.Moepack("tag " + Ref("stable") + " --remove").status, 4);
}

TEST_F(CopyCommands, DoesNotCopyADamagedBlob) {
  const auto sent = Copy("layout:models:v1", Ref("v1"));
  const std::filesystem::path blob =
      registry_->BlobPath(DigestsOf(sent)["groups/001/experts.gguf"]);
  std::string bytes = cli::ReadFile(blob);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  cli::WriteAll(blob, bytes);
  const auto run = workspace_.Moepack("copy " + Ref("v1") + " layout:back");
  EXPECT_TRUE(run.status == 3 || run.status == 6) << run.err;
  EXPECT_THAT(workspace_.Moepack("ls layout:back").out, HasSubstr("0 manifests"));
}

}  // namespace
}  // namespace moepack::remote
