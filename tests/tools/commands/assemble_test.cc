#include <gmock/gmock.h>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using testing::HasSubstr;

class Assemble : public testing::Test {
 protected:
  Assemble() {
    EXPECT_EQ(workspace_
                  .Moepack("build fixtures/tiny-moe --groups 3 --overlay-file "
                           "fixtures/tiny-overlay.json -o out --no-verify")
                  .status,
              0);
  }
  Workspace workspace_;
};

TEST_F(Assemble, MakesACheckpointThatOpensAsAModel) {
  const ToolRun run = workspace_.Moepack("assemble out --group 1 -o node");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("group 1 with 8 experts per layer"));
  const auto summary = workspace_.Json("list-tensors node --summary --json");
  EXPECT_EQ(summary["experts"], 8);
  EXPECT_EQ(summary["top_k"], 2);
  EXPECT_EQ(nlohmann::json::parse(ReadFile(workspace_ / "node/config.json"))["num_experts"], 8);
}

TEST_F(Assemble, ADryRunWritesNothingAndPredictsEveryFile) {
  const std::string before = workspace_.Listing();
  const auto dry = workspace_.Json("assemble out --group 0 -o node --dry-run --json");
  EXPECT_EQ(workspace_.Listing(), before);
  const auto written = workspace_.Json("assemble out --group 0 -o node --json");
  EXPECT_EQ(written["files"], dry["files"]);
  for (const auto& file : dry["files"]) {
    const auto path = workspace_ / "node" / file["file"].get<std::string>();
    EXPECT_EQ(std::filesystem::file_size(path), file["bytes"]) << path;
  }
}

// Each links the trunk, which changes the status of the file that the others read.
TEST_F(Assemble, NodesOfOneDistributionCanBeAssembledConcurrently) {
  const std::string build = "build fixtures/tiny-moe --groups 3 --recipe Q8_0 -o shared";
  ASSERT_EQ(workspace_.Moepack(build).status, 0);
  const auto command = [&](int group, int round) {
    const std::string name = "node" + std::to_string(round) + "-" + std::to_string(group);
    return "assemble '" + (workspace_ / "shared").string() + "' --group " + std::to_string(group) +
           " -o '" + (workspace_ / name).string() + "' >/dev/null";
  };
  for (int round = 0; round < 5; ++round) {
    std::string all = command(0, round) + " & one=$!";
    all += "; '" MOEPACK_BINARY "' " + command(1, round) + " & two=$!";
    all += "; '" MOEPACK_BINARY "' " + command(2, round) + " && wait $one && wait $two";
    const ToolRun run = workspace_.Moepack(all);
    EXPECT_EQ(run.status, 0) << run.err;
  }
}

TEST_F(Assemble, AMissingGroupIsAUsageError) {
  const ToolRun run = workspace_.Moepack("assemble out --group 3 -o node");
  EXPECT_EQ(run.status, 2) << run.err;
  EXPECT_THAT(run.err, HasSubstr("expected 0 to 2, found 3"));
}

TEST_F(Assemble, OfAReferenceItNamesThePullOfTheSameGroup) {
  const ToolRun run = workspace_.Moepack("assemble layout:models:v1 --group 1 -o node");
  EXPECT_EQ(run.status, 5) << run.err;
  EXPECT_THAT(run.err, HasSubstr("`moepack pull layout:models:v1 --group 1 -o pulled`"));
}

TEST_F(Assemble, RefusesAnOutputInsideOrAroundTheInput) {
  const std::string before = workspace_.Listing();
  for (const char* out : {"out/node", "out/groups/node", "out/a/b/node", ".", "out"}) {
    const ToolRun run = workspace_.Moepack(std::string("assemble out --group 0 --force -o ") + out);
    EXPECT_EQ(run.status, 2) << out;
    EXPECT_THAT(run.err, HasSubstr(" the input ")) << out;
  }
  EXPECT_EQ(workspace_.Listing(), before);
}

TEST_F(Assemble, AssetsThatAreLinksOutOfTheDistributionAreRefused) {
  const auto asset = workspace_ / "out/assets/tokenizer.json";
  std::filesystem::rename(asset, workspace_ / "secret");
  std::filesystem::create_symlink(workspace_ / "secret", asset);
  for (const char* dry : {"", " --dry-run"}) {
    const ToolRun run = workspace_.Moepack(std::string("assemble out --group 0 -o node") + dry);
    EXPECT_EQ(run.status, 3) << run.err;
    EXPECT_THAT(run.err, HasSubstr("found a link to "));
  }
  EXPECT_FALSE(std::filesystem::exists(workspace_ / "node"));
}

TEST_F(Assemble, VerifyOfANodeChecksFilesThatAreMissingStrayOrDamaged) {
  ASSERT_EQ(workspace_.Moepack("assemble out --group 1 -o node").status, 0);
  EXPECT_EQ(workspace_.Json("verify node --json")["passed"], true);
  WriteAll(workspace_ / "node/notes.txt", "mine");
  EXPECT_EQ(workspace_.Moepack("verify node").status, 0) << "a warning";
  WriteAll(workspace_ / "node/modeling_new.py", "import os");
  EXPECT_THAT(workspace_.Moepack("verify node").out,
              HasSubstr("error: no-stray-files: modeling_new.py"));
  std::filesystem::remove(workspace_ / "node/modeling_new.py");
  std::filesystem::remove(workspace_ / "node/tokenizer.json");
  const ToolRun run = workspace_.Moepack("verify node --format junit");
  EXPECT_EQ(run.status, 6);
  EXPECT_THAT(run.out, HasSubstr("failure type=\"files-present\""));
}

TEST_F(Assemble, ReportsAnUnknownOptionBeforeAMissingOne) {
  const ToolRun run = workspace_.Moepack("assemble out --groups 1 -o node");
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("unknown option \"--groups\"\nhint: did you mean --group?"));
}

TEST_F(Assemble, AnExistingOutputIsKeptUnlessForced) {
  WriteAll(workspace_ / "node/mine.txt", "mine");
  EXPECT_EQ(workspace_.Moepack("assemble out --group 0 -o node").status, 2);
  EXPECT_EQ(ReadFile(workspace_ / "node/mine.txt"), "mine");
}

}  // namespace
}  // namespace moepack::cli
