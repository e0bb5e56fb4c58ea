#include <gmock/gmock.h>

#include <map>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::map<std::string, std::string> FilesOf(const fs::path& root) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.is_regular_file())
      files[fs::relative(entry.path(), root).string()] = ReadFile(entry.path());
  }
  return files;
}

class JoinCommand : public testing::Test {
 protected:
  // One process per part, all at once, in three directories m0 to m2.
  void BuildSideBySide(const std::string& shard, const std::vector<std::string>& parts) {
    std::string all = "--version";  // so that the shell changes its directory before it forks
    for (size_t i = 0; i < parts.size(); ++i) {
      const std::string out = "m" + std::to_string(i);
      all += (i == 0 ? "; '" : " & '") + std::string(MOEPACK_BINARY) + "' " + shard +
             " --quiet --only " + parts[i] + " -o " + out + " >/dev/null";
    }
    const ToolRun run = workspace_.Moepack(all + " & wait");
    EXPECT_EQ(run.status, 0) << run.err;
  }
  void RemoveParts() {
    for (const char* name : {"m0", "m1", "m2", "whole", "out"}) fs::remove_all(workspace_ / name);
  }
  Workspace workspace_;
};

constexpr const char* kShard = "shard-experts fixtures/tiny-moe --groups 3 ";

TEST_F(JoinCommand, JoinsThreeGroupsBuiltByThreeProcesses) {
  const std::string overlay = "--overlay-file fixtures/tiny-overlay.json ";
  const std::vector<std::string> parts = {"trunk,group:0", "group:1,assets", "overlay,group:2"};
  for (const std::string& options :
       {overlay, overlay + "--quantize Q4_K_M", overlay + "--max-part-size 1MB --hash-source"}) {
    const std::string shard = kShard + options;
    BuildSideBySide(shard, parts);
    ASSERT_EQ(workspace_.Moepack(shard + " -o whole").status, 0);
    const ToolRun run = workspace_.Moepack("join m2 m0 m1 -o out");
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr("all parts are there\n"));
    EXPECT_TRUE(FilesOf(workspace_ / "out") == FilesOf(workspace_ / "whole")) << options;
    EXPECT_EQ(workspace_.Moepack("verify out --complete").status, 0);
    RemoveParts();
  }
}

// A distribution holds them only if they were requested by --keep-remainder or by --only.
TEST_F(JoinCommand, JoinsExpertsOfNoGroupAsInARunThatKeepsThem) {
  WriteAll(workspace_ / "groups.json",
           R"({"groups": [{"*": "0-3"}, {"*": "4-7"}, {"*": "8-11"}]})");
  const std::string shard = "shard-experts fixtures/tiny-moe --partition explicit:groups.json ";
  BuildSideBySide(shard, {"trunk,group:0,group:1", "group:2,assets", "remainder"});
  ASSERT_EQ(workspace_.Moepack(shard + "--keep-remainder -o whole").status, 0);
  EXPECT_EQ(workspace_.Moepack("join m0 m1 m2 -o out").status, 0);
  EXPECT_TRUE(FilesOf(workspace_ / "out") == FilesOf(workspace_ / "whole"));
}

// A GGUF file has no assets beside it, so none are missing.
TEST_F(JoinCommand, PartsOfASourceWithoutAssetsAreComplete) {
  ASSERT_EQ(workspace_.Moepack("quantize fixtures/tiny-moe --recipe Q8_0 -o a.gguf").status, 0);
  const std::string shard = "shard-experts '" + (workspace_ / "a.gguf").string() + "' --groups 3 ";
  BuildSideBySide(shard, {"trunk,group:0", "group:1", "group:2"});
  const std::string one = ReadFile(workspace_ / "m1/distribution.json");
  EXPECT_THAT(one, HasSubstr("\"complete\": false,\n  \"without_assets\": true,\n"));
  ASSERT_EQ(workspace_.Moepack(shard + "-o whole").status, 0);
  EXPECT_EQ(workspace_.Json("join m0 m1 m2 -o out --json")["complete"], true);
  EXPECT_TRUE(FilesOf(workspace_ / "out") == FilesOf(workspace_ / "whole"));
}

TEST_F(JoinCommand, ARunThatNamesEveryPartEqualsOneThatMakesAll) {
  ASSERT_EQ(workspace_.Moepack(std::string(kShard) + "-o whole").status, 0);
  const std::string only = "--only trunk,group:0,group:1,group:2,assets -o out";
  ASSERT_EQ(workspace_.Moepack(kShard + only).status, 0);
  EXPECT_TRUE(FilesOf(workspace_ / "out") == FilesOf(workspace_ / "whole"));
}

TEST_F(JoinCommand, TheReportNamesAbsentPartsAndHowToMakeThem) {
  BuildSideBySide(kShard, {"group:0", "group:1"});
  const ToolRun run = workspace_.Moepack("join m0 m1 -o out");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("; not complete; absent: trunk, group:2, assets\n"));
  const std::string only = " --only trunk,group:2,assets";
  EXPECT_THAT(run.out, HasSubstr("repeat the shard-experts run of another part with" + only +
                                 ": with -o out it adds to this distribution"));
  ASSERT_EQ(workspace_.Moepack(kShard + only + " -o out").status, 0);
  EXPECT_EQ(workspace_.Moepack("verify out --complete").status, 0);
}

TEST_F(JoinCommand, ADryRunWritesNothingAndPredictsEveryFile) {
  BuildSideBySide(kShard, {"trunk,group:0", "group:1"});
  const std::string before = workspace_.Listing();
  const auto dry = workspace_.Json("join m0 m1 -o out --dry-run --json");
  EXPECT_EQ(workspace_.Listing(), before);
  EXPECT_EQ(dry["dry_run"], true);
  EXPECT_EQ(dry["absent"], nlohmann::json::array({"group:2", "assets"}));
  const auto written = workspace_.Json("join m0 m1 -o out --json --quiet");
  EXPECT_EQ(written["bytes"], dry["bytes"]);
  EXPECT_EQ(written["manifest_sha256"], dry["manifest_sha256"]);
  for (const auto& file : dry["files"]) {
    EXPECT_EQ(fs::file_size(workspace_ / "out" / file["file"].get<std::string>()), file["bytes"]);
    EXPECT_FALSE(file.contains("link"));
  }
  EXPECT_EQ(written["files"][0]["link"], "hardlink");
  EXPECT_EQ(written["files"][0]["from"], "m0");
}

TEST_F(JoinCommand, RefusesInputsThatCannotBeJoined) {
  BuildSideBySide(kShard, {"trunk,group:0", "group:1"});
  ASSERT_EQ(
      workspace_.Moepack("shard-experts fixtures/tiny-moe --groups 2 --only assets -o two").status,
      0);
  struct Case {
    const char* arguments;
    int status;
    const char* text;
  };
  for (const Case& one :
       {Case{"-o out", 2, "DIST"},
        Case{"m0 -o out", 2, "distributions to join: expected two or more, found 1"},
        Case{"m0 m1", 2, "--output"}, Case{"m0 nothing -o out", 5, "nothing"},
        Case{"m0 fixtures/tiny-moe -o out", 2, "is a safetensors checkpoint, not a distribution"},
        Case{"m0 two -o out", 6, "two/distribution.json: partition.groups[0].experts.*: expected "},
        Case{"m0 m1 -o m1", 2, "is the input itself"},
        Case{"m0 m1 -o m1/x", 2, "lies inside the input"},
        Case{"m0 m1 -o fixtures", 2, "fixtures already exists"},
        Case{"m0 m1 -o fixtures --force", 2, "but no distribution.json or moepack_node.json"},
        Case{"m0 m1 -o out --link symlink", 2, "expected one of auto, hardlink, reflink, copy"}}) {
    const std::string before = workspace_.Listing();
    const ToolRun run = workspace_.Moepack(std::string("join ") + one.arguments);
    EXPECT_EQ(run.status, one.status) << one.arguments << "\n" << run.err;
    EXPECT_THAT(run.err, HasSubstr(one.text)) << one.arguments;
    EXPECT_EQ(run.out, "") << one.arguments;
    EXPECT_EQ(workspace_.Listing(), before) << one.arguments;
  }
}

}  // namespace
}  // namespace moepack::cli
