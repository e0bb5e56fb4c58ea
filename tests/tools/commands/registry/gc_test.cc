#include <gmock/gmock.h>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using testing::HasSubstr;

class GcCommand : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(workspace_.Moepack("build fixtures/tiny-moe --groups 2 -o out").status, 0);
    ASSERT_EQ(workspace_.Moepack("publish out layout:models:v1 --link copy").status, 0);
  }
  Workspace workspace_;
};

TEST_F(GcCommand, PrintsWhatItRemovesAndTheTotal) {
  ASSERT_EQ(workspace_.Moepack("tag layout:models:v1-g001 --remove").status, 0);
  ASSERT_EQ(workspace_.Moepack("tag layout:models:v1 --remove --no-views").status, 0);
  const auto dry = workspace_.Json("gc layout:models --dry-run --json");
  EXPECT_EQ(dry["removed"].size(), 5u) << "two manifests, two configs and the experts of a group";
  EXPECT_EQ(dry["bytes_freed"], dry["bytes_removed"]);
  const ToolRun run = workspace_.Moepack("gc layout:models");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("\nblobs/sha256/"));
  EXPECT_THAT(run.out, HasSubstr("removed 5 files: "));
  EXPECT_EQ(workspace_.Json("gc layout:models --json")["removed"].size(), 0u);
  EXPECT_EQ(workspace_.Moepack("pull layout:models:v1-g000 -o node").status, 0);
}

TEST_F(GcCommand, RemovesTheSignaturesOfWhatIsGone) {
  ASSERT_EQ(workspace_.Moepack("keygen -o release").status, 0);
  ASSERT_EQ(workspace_.Moepack("sign layout:models:v1 --key release.key").status, 0);
  ASSERT_EQ(workspace_.Moepack("tag layout:models:v1-g001 --remove").status, 0);
  const auto dry = workspace_.Json("gc layout:models --dry-run --json");
  EXPECT_EQ(dry["signatures_removed"].size(), 1u);
  EXPECT_THAT(workspace_.Moepack("ls layout:models").out, HasSubstr("2 manifests, 3 signatures"));
  const ToolRun run = workspace_.Moepack("gc layout:models");
  EXPECT_THAT(run.out, HasSubstr("; removed 1 signature of manifests that are gone"));
  EXPECT_THAT(workspace_.Moepack("ls layout:models").out, HasSubstr("2 manifests, 2 signatures"));
  EXPECT_EQ(workspace_.Moepack("verify layout:models:v1 --key release.pub").status, 0);
}

// A place with '/' is no registry's.
TEST_F(GcCommand, ClearsALayoutInADirectoryFromWhichEveryTagWasRemoved) {
  ASSERT_EQ(workspace_.Moepack("publish out layout:shelf/models:v1 --link copy").status, 0);
  ASSERT_EQ(workspace_.Moepack("tag layout:shelf/models:v1 --remove").status, 0);
  const ToolRun run = workspace_.Moepack("gc layout:shelf/models");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("kept 0 blobs, 0 B"));
  EXPECT_TRUE(std::filesystem::is_empty(workspace_ / "shelf/models/blobs/sha256"));
}

TEST_F(GcCommand, OfALayoutWithoutIndexItNamesPublish) {
  std::filesystem::remove(workspace_ / "models/index.json");
  const ToolRun run = workspace_.Moepack("gc layout:models");
  EXPECT_EQ(run.status, 5);
  EXPECT_THAT(run.err, HasSubstr("models/index.json"));
  EXPECT_THAT(run.err, HasSubstr("hint: publish again"));
}

TEST_F(GcCommand, NamesForeignFiles) {
  WriteAll(workspace_ / "models/blobs/sha256/notes.txt", "mine");
  WriteAll(workspace_ / "models/ingest/a.part", "half");
  const ToolRun run = workspace_.Moepack("gc layout:models --older-than 3");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("models/blobs/sha256/notes.txt: it is not a blob"));
  EXPECT_THAT(run.out, HasSubstr("and 1 partial file to resume from"));
  EXPECT_THAT(workspace_.Moepack("gc layout:models --older-than 0").out,
              HasSubstr("ingest/a.part"));
}

TEST_F(GcCommand, ErrorsHaveTheirExitStatus) {
  EXPECT_EQ(workspace_.Moepack("gc layout:absent").status, 5);
  EXPECT_EQ(workspace_.Moepack("gc layout:models:v1").status, 2);
  EXPECT_EQ(workspace_.Moepack("gc models").status, 2);
  EXPECT_EQ(workspace_.Moepack("gc oci://registry.example/model").status, 4);
  EXPECT_EQ(workspace_.Moepack("gc layout:models --older-than -1").status, 2);
  EXPECT_FALSE(std::filesystem::exists(workspace_ / "absent"));
}

}  // namespace
}  // namespace moepack::cli
