#include <gmock/gmock.h>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using testing::HasSubstr;

TEST(LsCommand, ListsTagsGroupsAndSizes) {
  const Workspace workspace;
  ASSERT_EQ(workspace.Moepack("build fixtures/tiny-moe --groups 2 -o out").status, 0);
  const auto published = workspace.Json("publish out layout:models:v1 --json");
  const ToolRun run = workspace.Moepack("ls layout:models");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("v1       set   000,001"));
  EXPECT_THAT(run.out, HasSubstr("v1-g001  node  001"));
  EXPECT_THAT(run.out, HasSubstr(published["digest"].get<std::string>()));
  EXPECT_THAT(run.out, HasSubstr("\n3 manifests\n"));
  const auto listed = workspace.Json("ls layout:models --json");
  ASSERT_EQ(listed["manifests"].size(), 3u);
  EXPECT_EQ(listed["manifests"][0]["digest"], published["digest"]);
  EXPECT_EQ(listed["manifests"][0]["groups"], nlohmann::json({"000", "001"}));
  EXPECT_EQ(listed["manifests"][2]["what"], "node");
}

TEST(LsCommand, CountsAManifestWithTwoTagsOnce) {
  const Workspace workspace;
  ASSERT_EQ(workspace.Moepack("build fixtures/tiny-moe --groups 2 -o out").status, 0);
  ASSERT_EQ(workspace.Moepack("publish out layout:models:v1-o1 --moving-tag v1").status, 0);
  EXPECT_THAT(workspace.Moepack("ls layout:models").out, HasSubstr("\n3 manifests under 6 tags\n"));
  EXPECT_EQ(workspace.Json("ls layout:models --json")["manifests"].size(), 6u);
}

TEST(LsCommand, RefusesAPlaceWithoutALayout) {
  const Workspace workspace;
  EXPECT_EQ(workspace.Moepack("ls layout:absent").status, 5);
  EXPECT_EQ(workspace.Moepack("ls layout:docs").status, 5);
  EXPECT_EQ(workspace.Moepack("ls layout:docs:v1").status, 2);
  EXPECT_EQ(workspace.Moepack("ls docs").status, 5);
  EXPECT_EQ(workspace.Moepack("ls oci://models").status, 2);
}

}  // namespace
}  // namespace moepack::cli
