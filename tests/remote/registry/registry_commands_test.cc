// publish, pull and ls with a real registry: what is sent, what is fetched, and what is refused.
#include "tests/remote/support/registry_commands.h"

#include <gmock/gmock.h>

#include "libshard/remote/http/http_client.h"
#include "libshard/remote/http/url.h"
namespace moepack::remote {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST_F(RegistryCommands, SendsEveryBlobOnceAndNothingInASecondPublish) {
  const auto first = Publish("out", Ref("v1"));
  EXPECT_GT(first["bytes_sent"], 7'000'000);
  for (const auto& [name, digest] : DigestsOf(first)) {
    if (name.starts_with("manifest ") || name.starts_with("config ")) continue;
    EXPECT_TRUE(cli::ReadFile(registry_->BlobPath(digest)) ==
                cli::ReadFile(workspace_ / "out" / name))
        << name;
  }
  SettleLog();
  registry_->Forget();
  const auto second = Publish("out", Ref("v1"));
  EXPECT_EQ(second["bytes_sent"], 0);
  EXPECT_EQ(second["digest"], first["digest"]);
  SettleLog();
  EXPECT_EQ(UploadsBegun(), 0u);
  // A layout gives the same digests.
  EXPECT_EQ(Publish("out", "layout:models:v1")["digest"], first["digest"]);
}

TEST_F(RegistryCommands, MountsAllBlobsInAnotherRepository) {
  Publish("out", Ref("v1"));
  const auto mounted = Publish("out", Ref("v1", "other/copy"), "--mount-from team/model");
  for (const auto& blob : mounted["blobs"]) {
    const bool manifest = blob["blob"].get<std::string>().starts_with("manifest ");
    EXPECT_EQ(blob["how"], manifest ? "sent" : "mounted") << blob["blob"];
  }
  EXPECT_GT(mounted["bytes_mounted"], 7'000'000);
  Runs("pull " + Ref("v1", "other/copy") + " --group 2 -o pulled");
}

TEST_F(RegistryCommands, APullOfOneGroupFetchesOnlyTheBlobsOfItsNode) {
  const auto digests = DigestsOf(Publish("out", Ref("v1")));
  Runs("publish out layout:models:v1");
  SettleLog();
  registry_->Forget();
  const auto run = Runs("pull " + Ref("v1") + " --group 1 -o pulled");
  EXPECT_THAT(run.out, HasSubstr("groups/001/experts.gguf"));
  SettleLog();
  const std::set<std::string> fetched = BlobsFetched();
  for (const auto& [name, digest] : digests) {
    const bool other = name.starts_with("groups/") && !name.starts_with("groups/001/");
    const bool file = !name.starts_with("manifest ") && !name.starts_with("config ");
    if (file) {
      EXPECT_EQ(fetched.contains(digest), !other) << name;
    }
  }
  Runs("pull layout:models:v1 --group 1 -o from-layout");
  fs::remove(workspace_ / "pulled/pulled.json");
  fs::remove(workspace_ / "from-layout/pulled.json");
  EXPECT_TRUE(Content("pulled") == Content("from-layout"));
  Runs("verify pulled --group 1");
}

TEST_F(RegistryCommands, PullAssemblesANode) {
  Publish("out", Ref("v1"));
  const auto run = Runs("pull " + Ref("v1") + " --group 0 -o pulled --assemble node-0");
  EXPECT_THAT(run.out, HasSubstr("llama-server -m node-0/node-00001-of-00003.gguf"));
  Runs("verify node-0");
}

TEST_F(RegistryCommands, SendsAndFetchesOnlyANewOverlay) {
  cli::WriteAll(
      workspace_ / "next.json",
      R"({"version": "generalists-2", "layers": {"0": "2,11", "1": "0,8", "2": "5,13"}})");
  Build("next.json", "next");
  const auto old = DigestsOf(Publish("out", Ref("v1-o1"), "--moving-tag v1"));
  Runs("pull " + Ref("v1") + " --group 1 -o pulled");
  const auto report = Publish("next", Ref("v1-o2"), "--moving-tag v1");
  for (const auto& blob : report["blobs"]) {
    const std::string name = blob["blob"];
    const bool big = name.ends_with("experts.gguf") || name.ends_with("trunk.gguf");
    if (big) {
      EXPECT_EQ(blob["how"] == "sent", name.starts_with("overlays/")) << name;
    }
  }
  SettleLog();
  registry_->Forget();
  Runs("pull " + Ref("v1") + " --update -o pulled");
  SettleLog();
  const std::set<std::string> fetched = BlobsFetched();
  for (const auto& [name, digest] : DigestsOf(report)) {
    const bool same = old.contains(name) && old.at(name) == digest && name != "README.md";
    if (same || name.starts_with("overlays/")) {
      EXPECT_EQ(fetched.contains(digest), !same) << name;
    }
  }
  Runs("verify pulled --group 1");
}

TEST_F(RegistryCommands, ListsTagsGroupsAndSizes) {
  Publish("out", Ref("v1"));
  const auto run = Runs("ls oci://" + registry_->host() + "/team/model");
  EXPECT_THAT(run.out, HasSubstr("v1       set   000,001,002  generalists-1"));
  EXPECT_THAT(run.out, HasSubstr("v1-g001  node  001"));
  EXPECT_THAT(run.out, HasSubstr("4 manifests"));
}

TEST_F(RegistryCommands, ReportsDamageInTheRegistryAndPullsAfterItsRepair) {
  const auto digests = DigestsOf(Publish("out", Ref("v1")));
  const fs::path blob = registry_->BlobPath(digests.at("groups/001/experts.gguf"));
  const std::string good = cli::ReadFile(blob);
  std::string bad = good;
  bad[bad.size() / 2] = static_cast<char>(bad[bad.size() / 2] ^ 1);
  cli::WriteAll(blob, bad);
  const auto run = workspace_.Moepack("pull " + Ref("v1") + " --group 1 -o pulled");
  EXPECT_EQ(run.status, 3) << run.err;
  EXPECT_THAT(run.err, HasSubstr("groups/001/experts.gguf"));
  EXPECT_THAT(run.err, HasSubstr(digests.at("groups/001/experts.gguf").substr(7)));
  EXPECT_THAT(run.err, HasSubstr("a registry keeps the blobs that it has, so have this one deleted "
                                 "there first"));
  EXPECT_FALSE(fs::exists(workspace_ / "pulled"));
  cli::WriteAll(blob, good.substr(0, good.size() - 1000));
  const auto shorter = workspace_.Moepack("pull " + Ref("v1") + " --group 1 -o pulled");
  EXPECT_EQ(shorter.status, 3) << shorter.err;
  EXPECT_FALSE(fs::exists(workspace_ / "pulled"));
  cli::WriteAll(blob, good);
  Runs("pull " + Ref("v1") + " --group 1 -o pulled");
}

// What docs/registry.md says about it.
TEST_F(RegistryCommands, ACorruptBlobStaysInTheRegistryUntilItIsDeletedThere) {
  const std::string group = "groups/001/experts.gguf";
  const auto how = [&](const nlohmann::json& report) {
    for (const auto& one : report["blobs"])
      if (one["blob"] == group) return one["how"].get<std::string>();
    return std::string("not published");
  };
  const fs::path blob = registry_->BlobPath(DigestsOf(Publish("out", Ref("v1"))).at(group));
  std::string bytes = cli::ReadFile(blob);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  cli::WriteAll(blob, bytes);
  EXPECT_EQ(how(Publish("out", Ref("v1"), "--force")), "there");
  EXPECT_EQ(workspace_.Moepack("pull " + Ref("v1") + " --group 1 -o pulled").status, 3);
  fs::remove(blob);
  registry_->Restart();
  EXPECT_EQ(how(Publish("out", Ref("v1"))), "sent");
  Runs("pull " + Ref("v1") + " --group 1 -o pulled");
}

TEST_F(RegistryCommands, NamesABlobThatTheRegistryLost) {
  const auto digests = DigestsOf(Publish("out", Ref("v1")));
  fs::remove(registry_->BlobPath(digests.at("groups/001/experts.gguf")));
  const auto run = workspace_.Moepack("pull " + Ref("v1") + " --group 1 -o pulled");
  EXPECT_EQ(run.status, 5) << run.err;
  EXPECT_THAT(run.err, HasSubstr("groups/001/experts.gguf"));
  EXPECT_FALSE(fs::exists(workspace_ / "pulled"));
  Runs("pull " + Ref("v1") + " --group 0 -o pulled");
}

TEST_F(RegistryCommands, MissingTagsAndGroupsAreErrors) {
  Publish("out", Ref("v1"));
  const auto tag = workspace_.Moepack("pull " + Ref("v9") + " --group 1 -o pulled");
  EXPECT_EQ(tag.status, 5) << tag.err;
  EXPECT_THAT(tag.err, HasSubstr("not found, or no permission"));
  const auto group = workspace_.Moepack("pull " + Ref("v1") + " --group 9 -o pulled");
  EXPECT_EQ(group.status, 2) << group.err;
  const auto moved = workspace_.Moepack("publish out " + Ref("v1-g000"));
  EXPECT_EQ(moved.status, 2) << moved.err;
  EXPECT_THAT(moved.err, HasSubstr("--force"));
  const std::string reference = Ref("v1");
  registry_->Stop();
  const auto gone = workspace_.Moepack("pull " + reference + " --group 1 -o pulled");
  EXPECT_EQ(gone.status, 7) << gone.err;
  EXPECT_FALSE(fs::exists(workspace_ / "pulled"));
}

// Other tools copy what was published byte by byte, so that digests stay the same.
TEST_F(RegistryCommands, SkopeoCopiesToALayoutAndToAnotherRegistry) {
  if (FindProgram("skopeo").empty()) GTEST_SKIP() << "skopeo is not installed";
  const auto published = Publish("out", Ref("v1"));
  DockerRegistry other(workspace_ / "other-registry");
  const auto skopeo = [&](const std::string& from, const std::string& to) {
    fs::create_directories(workspace_ / "home");
    const std::string command = "cd '" + workspace_.path().string() +
                                "' && HOME=$PWD/home TMPDIR=$PWD/home " + FindProgram("skopeo") +
                                " --insecure-policy copy --src-tls-verify=false " +
                                "--dest-tls-verify=false " + from + " " + to + " >home/log 2>&1";
    EXPECT_EQ(std::system(command.c_str()), 0) << cli::ReadFile(workspace_ / "home/log");
  };
  const std::string here = "docker://" + registry_->host() + "/team/model";
  const std::string there = "docker://" + other.host() + "/team/model";
  skopeo(here + ":v1", "oci:layout:v1");
  skopeo(here + ":v1-g001", "oci:node:v1");
  skopeo("oci:layout:v1", there + ":v1");
  const auto listed = workspace_.Json("ls layout:layout --json");
  EXPECT_EQ(listed["manifests"][0]["digest"], published["digest"]);
  Runs("pull layout:node:v1 -o from-view");
  Runs("verify from-view --group 1");
  const auto pulled =
      workspace_.Json("pull oci://" + other.host() + "/team/model:v1 --group 1 -o pulled --json");
  EXPECT_EQ(pulled["digest"], published["digest"]);
  // A layout written by skopeo can be pulled from, and copied to a registry.
  Runs("pull layout:layout:v1 --group 0 -o from-layout");
  const auto copied =
      workspace_.Json("copy layout:layout:v1 " + Ref("v2", "from/skopeo") + " --json");
  EXPECT_EQ(copied["digest"], published["digest"]);
  Runs("pull " + Ref("v2", "from/skopeo") + " --group 2 -o copied");
}

// Cleaning the registry removes nothing that a later version still refers to.
TEST_F(RegistryCommands, ALaterVersionSurvivesTheRemovalOfAnEarlierOne) {
  cli::WriteAll(
      workspace_ / "next.json",
      R"({"version": "generalists-2", "layers": {"0": "2,11", "1": "0,8", "2": "5,13"}})");
  Build("next.json", "next");
  const auto old = Publish("out", Ref("v1"));
  const auto next = Publish("next", Ref("v2"));
  HttpClient client({});
  for (const auto& tag : old["tags"]) {
    const std::string url = "http://" + registry_->host() + "/v2/team/model/manifests/" +
                            tag["digest"].get<std::string>();
    const auto deleted =
        client.Fetch({.method = "DELETE", .url = *ParseUrl(url), .name = url}, 4096);
    ASSERT_TRUE(deleted) << deleted.error().message;
    EXPECT_EQ(deleted->status, 202);
  }
  ASSERT_TRUE(registry_->CollectGarbage());
  EXPECT_FALSE(
      fs::exists(registry_->BlobPath(DigestsOf(old).at("overlays/generalists-1/experts.gguf"))));
  EXPECT_EQ(workspace_.Moepack("pull " + Ref("v1") + " --group 1 -o old").status, 5);
  Runs("pull " + Ref("v2") + " --group 1 -o pulled");
  Runs("verify pulled --group 1");
}

TEST_F(RegistryCommands, ADryRunSendsNothing) {
  const auto dry = Publish("out", Ref("v1"), "--dry-run");
  EXPECT_GT(dry["bytes_new"], 7'000'000);
  EXPECT_EQ(UploadsBegun(), 0u);
  EXPECT_EQ(workspace_.Moepack("pull " + Ref("v1") + " --group 1 -o pulled").status, 5);
  const auto real = Publish("out", Ref("v1"));
  EXPECT_EQ(dry["bytes_new"], real["bytes_new"]);
  EXPECT_EQ(dry["digest"], real["digest"]);
  EXPECT_EQ(Publish("out", Ref("v1"), "--dry-run")["bytes_new"], 0);
  Runs("pull " + Ref("v1") + " --group 1 -o pulled --dry-run");
  EXPECT_FALSE(fs::exists(workspace_ / "pulled"));
}

}  // namespace
}  // namespace moepack::remote
