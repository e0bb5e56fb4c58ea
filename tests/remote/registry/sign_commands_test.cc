// sign, verify and pull --key with a real registry, and skopeo, which copies signatures.
#include <gmock/gmock.h>

#include <future>

#include "tests/remote/support/registry_commands.h"

namespace moepack::remote {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class SignCommands : public RegistryCommands {
 protected:
  void SetUp() override {
    RegistryCommands::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    Publish("out", Ref("v1"));
    Runs("keygen -o release");
    Runs("keygen -o stranger --type ed25519");
  }
  cli::ToolRun Fails(const std::string& arguments) const {
    cli::ToolRun run = workspace_.Moepack(arguments);
    EXPECT_EQ(run.status, 6) << arguments << "\n" << run.out << run.err;
    return run;
  }
};

TEST_F(SignCommands, SignsAndVerifiesASetInARegistry) {
  const auto done = workspace_.Json("sign " + Ref("v1") + " --key release.key --json");
  EXPECT_EQ(done["identity"], registry_->host() + "/team/model");
  EXPECT_EQ(done["manifests"].size(), 4u);
  for (const char* tag : {"v1", "v1-g000", "v1-g002"})
    Runs("verify " + Ref(tag) + " --key release.pub");
  Runs("sign " + Ref("v1") + " --key stranger.key --no-views");
  const auto both =
      workspace_.Json("verify " + Ref("v1") + " --key stranger.pub --key release.pub --json");
  EXPECT_EQ(both["signatures"].size(), 2u);
  const auto again = workspace_.Json("sign " + Ref("v1") + " --key stranger.key --json");
  EXPECT_EQ(again["manifests"][0]["state"], "was signed");
  EXPECT_EQ(again["manifests"][1]["state"], "signed");
}

// Each reads which signatures there are, and writes them back with its own.
TEST_F(SignCommands, SeveralSignersAtOnceLoseNoSignature) {
  constexpr int kSigners = 3;
  for (int i = 0; i < kSigners; ++i) Runs("keygen -o key" + std::to_string(i));
  std::vector<std::future<int>> signers;
  for (int i = 0; i < kSigners; ++i) {
    signers.push_back(std::async(std::launch::async, [this, i] {
      return workspace_
          .Moepack("sign " + Ref("v1") + " --no-views --key key" + std::to_string(i) + ".key >log" +
                   std::to_string(i) + " 2>&1")
          .status;
    }));
  }
  for (int i = 0; i < kSigners; ++i) {
    EXPECT_EQ(signers[static_cast<size_t>(i)].get(), 0)
        << cli::ReadFile(workspace_ / ("log" + std::to_string(i)));
  }
  for (int i = 0; i < kSigners; ++i)
    Runs("verify " + Ref("v1") + " --key key" + std::to_string(i) + ".pub");
}

TEST_F(SignCommands, FetchesNothingWithoutAKnownSignature) {
  Runs("sign " + Ref("v1") + " --key release.key");
  SettleLog();
  registry_->Forget();
  const auto run = Fails("pull " + Ref("v1") + " --group 1 -o pulled --key stranger.pub");
  EXPECT_THAT(run.err, HasSubstr(" by stranger.pub (1 signature found, key unknown)"));
  EXPECT_FALSE(fs::exists(workspace_ / "pulled"));
  SettleLog();
  // Only the payload of the signature.
  EXPECT_EQ(BlobsFetched().size(), 1u);
  Runs("pull " + Ref("v1") + " --group 1 -o pulled --key stranger.pub --key release.pub");
  Runs("pull " + Ref("v1-g000") + " -o node --key release.pub");
}

TEST_F(SignCommands, DoesNotReportAnUnreachableRegistryAsUnsigned) {
  const cli::ToolRun run =
      workspace_.Moepack("verify oci://127.0.0.1:1/team/model:v1 --key release.pub");
  EXPECT_EQ(run.status, 7) << run.err;
}

TEST_F(SignCommands, SkopeoCopiesSignatures) {
  if (std::system("command -v skopeo >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "skopeo is not installed";
  Runs("sign " + Ref("v1") + " --key release.key");
  cli::WriteAll(workspace_ / "registries.d/default.yaml",
                "default-docker:\n  use-sigstore-attachments: true\n");
  cli::WriteAll(workspace_ / "registries.conf", "");
  fs::create_directories(workspace_ / "home");
  const std::string from = "docker://" + registry_->host() + "/team/model:v1";
  const std::string to = "docker://" + registry_->host() + "/other/copy:v1";
  const std::string command =
      "cd '" + workspace_.path().string() +
      "' && HOME=$PWD/home skopeo --tmpdir home --insecure-policy --registries-conf "
      "registries.conf --registries.d registries.d copy --src-tls-verify=false "
      "--dest-tls-verify=false " +
      from + " " + to + " >home/log 2>&1";
  ASSERT_EQ(std::system(command.c_str()), 0) << cli::ReadFile(workspace_ / "home/log");
  Runs("verify " + Ref("v1", "other/copy") + " --key release.pub");
  Fails("verify " + Ref("v1", "other/copy") + " --key stranger.pub");
}

}  // namespace
}  // namespace moepack::remote
