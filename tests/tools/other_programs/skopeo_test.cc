// skopeo copies the output of publish: digests stay the same, and its output can be pulled from.
#include <gmock/gmock.h>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

class Skopeo : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v skopeo >/dev/null 2>&1") != 0)
      GTEST_SKIP() << "skopeo is not installed";
    ASSERT_EQ(workspace_.Moepack("build fixtures/tiny-moe --groups 2 -o out").status, 0);
    published_ = workspace_.Json("publish out layout:models:v1 --json");
  }
  // A separate home: no settings or cache of the user apply.
  void Copy(const std::string& from, const std::string& to) const {
    std::filesystem::create_directories(workspace_ / "home");
    const std::string command = "cd '" + workspace_.path().string() +
                                "' && HOME=$PWD/home TMPDIR=$PWD/home skopeo --insecure-policy "
                                "copy " +
                                from + " " + to + " >home/log 2>&1";
    EXPECT_EQ(std::system(command.c_str()), 0) << ReadFile(workspace_ / "home/log");
  }
  Workspace workspace_;
  nlohmann::json published_;
};

TEST_F(Skopeo, CopiesKeepTheirDigestsAndCanBePulled) {
  Copy("oci:models:v1", "oci:other:v1");
  Copy("oci:models:v1-g001", "oci:other:v1-g001");
  // A second tag on the same manifest.
  Copy("oci:models:v1", "oci:other:stable");
  const auto listed = workspace_.Json("ls layout:other --json")["manifests"];
  ASSERT_EQ(listed.size(), 3u) << listed;
  EXPECT_EQ(listed[0]["digest"], published_["digest"]);
  EXPECT_EQ(listed[1]["digest"], published_["tags"][2]["digest"]);
  EXPECT_EQ(listed[2]["digest"], published_["digest"]);
  for (const char* pull :
       {"pull layout:other:stable --group 1 -o set", "pull layout:other:v1-g001 -o node"}) {
    const ToolRun run = workspace_.Moepack(pull);
    EXPECT_EQ(run.status, 0) << run.err;
  }
  EXPECT_EQ(workspace_.Moepack("verify set --group 1").status, 0);
  EXPECT_EQ(workspace_.Moepack("verify node --group 1").status, 0);
}

TEST_F(Skopeo, AnArchiveOfALayoutRoundTripsWithTheSameDigest) {
  Copy("oci:models:v1", "oci-archive:models.tar:v1");
  Copy("oci-archive:models.tar:v1", "oci:back:v1");
  EXPECT_EQ(workspace_.Json("ls layout:back --json")["manifests"][0]["digest"],
            published_["digest"]);
  const ToolRun run = workspace_.Moepack("pull layout:back:v1 --group 0 -o pulled");
  EXPECT_EQ(run.status, 0) << run.err;
}

// What skopeo wrote into index.json stays, and a layout of one view is complete in itself.
TEST_F(Skopeo, PublishingToItsLayoutAddsTags) {
  Copy("oci:models:v1-g000", "oci:other:mine");
  const auto added = workspace_.Json("publish out layout:other:v1 --json");
  EXPECT_EQ(added["digest"], published_["digest"]);
  EXPECT_LT(added["bytes_new"], published_["bytes_new"]);
  const auto listed = workspace_.Json("ls layout:other --json")["manifests"];
  ASSERT_EQ(listed.size(), 4u) << listed;
  EXPECT_EQ(listed[0]["tag"], "mine");
  Copy("oci:other:v1-g000", "oci:third:v1");
  EXPECT_EQ(workspace_.Moepack("pull layout:third:v1 -o node").status, 0);
}

TEST_F(Skopeo, ItsLayoutsCanBeCopiedAndCollected) {
  Copy("oci:models:v1", "oci:other:v1");
  Copy("oci:models:v1-g001", "oci:other:v1-g001");
  Copy("oci:models:v1", "oci:other:stable");
  const auto copied = workspace_.Json("copy layout:other:stable layout:third --json");
  EXPECT_EQ(copied["digest"], published_["digest"]);
  EXPECT_EQ(copied["tags"][1]["tag"], "stable-g001");
  EXPECT_EQ(workspace_.Json("gc layout:other --json")["removed"].size(), 0u);
  Copy("oci:third:stable", "oci:fourth:v1");
  EXPECT_EQ(workspace_.Json("inspect layout:fourth:v1 --json")["digest"], published_["digest"]);
  EXPECT_EQ(workspace_.Moepack("tag layout:other:v1 --remove").status, 0);
  EXPECT_EQ(workspace_.Moepack("gc layout:other").status, 0);
  EXPECT_EQ(workspace_.Moepack("pull layout:other:stable --group 0 -o node").status, 0);
}

}  // namespace
}  // namespace moepack::cli
