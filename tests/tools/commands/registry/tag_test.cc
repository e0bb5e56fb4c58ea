#include <gmock/gmock.h>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using testing::HasSubstr;

class TagCommand : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(workspace_.Moepack("build fixtures/tiny-moe --groups 2 -o out").status, 0);
    published_ = workspace_.Json("publish out layout:models:v1 --json");
  }
  Workspace workspace_;
  nlohmann::json published_;
};

TEST_F(TagCommand, AddsAndRemovesTags) {
  const ToolRun run = workspace_.Moepack("tag layout:models:v1 stable best");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("\nstable       new"));
  EXPECT_THAT(run.out, HasSubstr("\nbest-g001    new"));
  const auto again = workspace_.Json("tag layout:models:v1 stable --json");
  EXPECT_EQ(again["digest"], published_["digest"]);
  EXPECT_EQ(again["tags"][0]["state"], "as it was");
  const auto dry = workspace_.Json("tag layout:models:stable --remove --dry-run --json");
  EXPECT_EQ(dry["removed"].size(), 3u);
  const ToolRun removed = workspace_.Moepack("tag layout:models:stable --remove");
  EXPECT_EQ(removed.status, 0) << removed.err;
  EXPECT_THAT(removed.out, HasSubstr("removed 3 tags; the manifest also has v1, best"));
  EXPECT_EQ(workspace_.Moepack("tag layout:models:stable --remove").status, 5);
  EXPECT_EQ(workspace_.Json("ls layout:models --json")["manifests"].size(), 6u);
}

TEST_F(TagCommand, ErrorsHaveTheirExitStatus) {
  EXPECT_EQ(workspace_.Moepack("tag layout:models:v1").status, 2);
  EXPECT_EQ(workspace_.Moepack("tag layout:models:v1 'no tag'").status, 2);
  EXPECT_EQ(workspace_.Moepack("tag layout:models:v1 stable --remove").status, 2);
  EXPECT_EQ(workspace_.Moepack("tag layout:models:v1 --remove --force").status, 2);
  const ToolRun view = workspace_.Moepack("tag layout:models:v1-g000 node --no-views");
  EXPECT_EQ(view.status, 2);
  EXPECT_THAT(view.err, HasSubstr("--no-views has no effect: "));
  EXPECT_EQ(workspace_.Moepack("tag layout:models:v9 stable").status, 5);
  EXPECT_EQ(workspace_.Moepack("tag layout:absent:v1 stable").status, 5);
  EXPECT_EQ(workspace_.Moepack("tag out stable").status, 2);
  EXPECT_EQ(workspace_.Moepack("tag oci://registry.example/model:v1 --remove").status, 4);
  EXPECT_EQ(workspace_.Moepack("tag layout:models:v1-g000 v1").status, 2);
  EXPECT_EQ(workspace_.Moepack("tag layout:models:v1-g000 v1 --force").status, 0);
}

}  // namespace
}  // namespace moepack::cli
