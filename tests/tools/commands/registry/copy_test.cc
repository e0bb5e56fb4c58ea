#include <gmock/gmock.h>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using testing::HasSubstr;

class CopyCommand : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(workspace_.Moepack("build fixtures/tiny-moe --groups 2 -o out").status, 0);
    published_ = workspace_.Json("publish out layout:models:v1 --json");
  }
  Workspace workspace_;
  nlohmann::json published_;
};

TEST_F(CopyCommand, PrintsWhatItCopied) {
  const ToolRun run = workspace_.Moepack("copy layout:models:v1 layout:mirror");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("\ntrunk/trunk.safetensors"));
  EXPECT_THAT(run.out, HasSubstr("\nv1-g001  new    sha256:"));
  EXPECT_THAT(run.out, HasSubstr("\ncopied to layout:mirror:v1: "));
  EXPECT_EQ(workspace_.Moepack("pull layout:mirror:v1 --group 1 -o pulled").status, 0);
  EXPECT_EQ(workspace_.Moepack("verify pulled --group 1").status, 0);
}

TEST_F(CopyCommand, JsonHasEveryBlobAndTag) {
  const auto dry = workspace_.Json("copy layout:models:v1 layout:mirror:v2 --dry-run --json");
  EXPECT_FALSE(std::filesystem::exists(workspace_ / "mirror"));
  const auto document =
      workspace_.Json("copy layout:models:v1 layout:mirror:v2 --link copy --jobs 1 --json");
  EXPECT_EQ(document["from"], "layout:models:v1");
  EXPECT_EQ(document["to"], "layout:mirror:v2");
  EXPECT_EQ(document["digest"], published_["digest"]);
  EXPECT_EQ(document["bytes_new"], dry["bytes_new"]);
  EXPECT_EQ(document["bytes_copied"], document["bytes_new"]);
  EXPECT_EQ(document["tags"].size(), 3u);
  EXPECT_EQ(document["tags"][0]["state"], "new");
  const auto again = workspace_.Json("copy layout:models:v1 layout:mirror:v2 --json");
  EXPECT_EQ(again["bytes_new"], 0);
  EXPECT_EQ(again["tags"][2]["state"], "as it was");
  const auto alone = workspace_.Json("copy layout:models:v1 layout:third --no-views --json");
  EXPECT_EQ(alone["tags"].size(), 1u);
}

TEST_F(CopyCommand, ErrorsHaveTheirExitStatus) {
  EXPECT_EQ(workspace_.Moepack("copy layout:models:v9 layout:mirror").status, 5);
  EXPECT_EQ(workspace_.Moepack("copy layout:absent:v1 layout:mirror").status, 5);
  EXPECT_EQ(workspace_.Moepack("copy layout:models:v1 mirror").status, 2);
  EXPECT_EQ(workspace_.Moepack("copy layout:models:v1 layout:mirror --username me").status, 2);
  for (const char* idle : {"layout:mirror --upload chunked", "layout:mirror --chunk-size 2MiB",
                           "layout:mirror --mount-from a/b", "oci://localhost:1/m --link copy",
                           "oci://localhost:1/m --upload whole --chunk-size 2MiB"}) {
    const ToolRun run = workspace_.Moepack(std::string("copy layout:models:v1 ") + idle);
    EXPECT_EQ(run.status, 2) << idle;
    EXPECT_THAT(run.err, HasSubstr(" has no effect: ")) << idle;
  }
  const ToolRun view = workspace_.Moepack("copy layout:models:v1-g000 layout:mirror --no-views");
  EXPECT_EQ(view.status, 2);
  EXPECT_THAT(view.err, HasSubstr("--no-views has no effect: "));
  const ToolRun far = workspace_.Moepack("copy oci://localhost:1/m layout:mirror --link hardlink");
  EXPECT_EQ(far.status, 2);
  EXPECT_THAT(far.err, HasSubstr("--link has no effect: oci://localhost:1/m is on another"));
  EXPECT_FALSE(std::filesystem::exists(workspace_ / "mirror"));
  EXPECT_EQ(workspace_
                .Moepack("copy layout:models:v1 layout:usual --link auto --upload auto "
                         "--chunk-size 64MiB")
                .status,
            0);
  const ToolRun login = workspace_.Moepack(
      "copy oci://a.example/m:v1 oci://b.example/m:v1 --username me --password-stdin </dev/null");
  EXPECT_EQ(login.status, 2);
  EXPECT_THAT(login.err, HasSubstr("apply to one registry, but FROM and TO name two"));
  ASSERT_EQ(workspace_.Moepack("tag layout:models:v1-g000 taken").status, 0);
  const ToolRun moved = workspace_.Moepack("copy out layout:models:taken");
  EXPECT_EQ(moved.status, 2);
  EXPECT_THAT(moved.err, HasSubstr("--force"));
  EXPECT_EQ(workspace_.Moepack("copy out layout:models:taken --force").status, 0);
}

}  // namespace
}  // namespace moepack::cli
