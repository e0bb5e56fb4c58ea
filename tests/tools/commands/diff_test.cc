#include <gmock/gmock.h>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using testing::HasSubstr;

class Diff : public testing::Test {
 protected:
  Diff() {
    const std::string build = "build fixtures/tiny-moe --no-verify --groups 3 ";
    EXPECT_EQ(workspace_.Moepack(build + "-o a").status, 0);
    EXPECT_EQ(workspace_.Moepack(build + "--partition modulo -o b").status, 0);
  }
  Workspace workspace_;
};

TEST_F(Diff, ADistributionEqualsItself) {
  const ToolRun run = workspace_.Moepack("diff a a/distribution.json --exit-code");
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.out, "a and a/distribution.json are the same\n");
}

TEST_F(Diff, DifferencesAreAnErrorOnlyWhenAskedFor) {
  EXPECT_EQ(workspace_.Moepack("diff a b").status, 0);
  const ToolRun run = workspace_.Moepack("diff a b --exit-code");
  EXPECT_EQ(run.status, 6);
  EXPECT_EQ(run.err, "");
}

TEST_F(Diff, CountsTensorsAndListsThemOnRequest) {
  EXPECT_THAT(workspace_.Moepack("diff a b").out, HasSubstr("(--tensors lists them)"));
  EXPECT_EQ(workspace_.Moepack("diff a b").out.find("up_proj"), std::string::npos);
  EXPECT_THAT(workspace_.Moepack("diff a b --tensors").out, HasSubstr("up_proj"));
}

TEST_F(Diff, JsonSaysWhatANodeMustFetch) {
  const auto json = workspace_.Json("diff a b --json");
  EXPECT_EQ(json["same"], false);
  EXPECT_EQ(json["changes"][0]["what"], "partition");
  // The trunk is the same file; the three groups are not.
  EXPECT_EQ(json["same_bytes"],
            std::filesystem::file_size(workspace_ / "a/trunk/trunk.safetensors"));
  EXPECT_GT(json["changed_bytes"], 3 * 7'000'000);
}

TEST_F(Diff, ALongValueIsCutInTheTableAroundTheFirstDifference) {
  const auto set = [&](const std::string& value) {
    auto document = nlohmann::json::parse(ReadFile(workspace_ / "a/distribution.json"));
    document["x_notes"] = {{"text", std::string(300, 'x') + value + std::string(300, 'y')}};
    WriteAll(workspace_ / "c/distribution.json", document.dump());
  };
  set("old");
  const ToolRun added = workspace_.Moepack("diff a c");
  EXPECT_EQ(added.status, 0) << added.err;
  EXPECT_THAT(added.out, testing::ContainsRegex("x_notes +- +.\"text\":\"xxx"));
  EXPECT_THAT(added.out, HasSubstr("xxx...\n"));
  EXPECT_EQ(added.out.find("old"), std::string::npos);
  std::filesystem::rename(workspace_ / "c", workspace_ / "old");
  set("new");
  const ToolRun changed = workspace_.Moepack("diff old c");
  EXPECT_THAT(changed.out, testing::ContainsRegex("x_notes  \\.\\.\\.xx+oldyy+\\.\\.\\."));
  EXPECT_THAT(changed.out, testing::ContainsRegex("  \\.\\.\\.xx+newyy+\\.\\.\\.\n"));
  const auto json = workspace_.Json("diff old c --json");
  EXPECT_GT(json["changes"][0]["after"].get<std::string>().size(), 600u);
}

TEST_F(Diff, ComparesPublishedSetsByTheirLayers) {
  const auto first = workspace_.Json("publish a layout:models:v1 --json");
  ASSERT_EQ(workspace_.Moepack("publish b layout:models:v2").status, 0);
  EXPECT_EQ(workspace_.Moepack("diff layout:models:v1 a --exit-code").out,
            "layout:models:v1 and a are the same\n");
  EXPECT_EQ(workspace_.Moepack("diff a/distribution.json layout:models:v1 --exit-code").status, 0);
  const ToolRun run = workspace_.Moepack("diff layout:models:v1 layout:models:v2 --exit-code");
  EXPECT_EQ(run.status, 6) << run.err;
  EXPECT_THAT(run.out, HasSubstr("layer       groups/000/experts.safetensors"));
  EXPECT_THAT(run.out, HasSubstr("trunk and groups are not the same"));
  const auto json = workspace_.Json("diff layout:models:v1 layout:models:v2 --group 1 --json");
  EXPECT_EQ(json["same"], false);
  EXPECT_EQ(json["same_base"], false);
  ASSERT_EQ(json["nodes"].size(), 1u);
  EXPECT_LT(json["nodes"][0]["fetch_bytes"], json["nodes"][0]["bytes"]);
  EXPECT_EQ(workspace_.Moepack("diff a b --group 1").status, 2);
  EXPECT_EQ(workspace_.Moepack("diff layout:models:v1 b --tensors").status, 2);
  EXPECT_EQ(workspace_.Moepack("diff layout:models:v1 layout:models:v2 --group 9").status, 2);
}

TEST_F(Diff, RefusesOptionsForPlacesThatAreNotCompared) {
  ASSERT_EQ(workspace_.Moepack("publish a layout:models:v1").status, 0);
  const std::pair<const char*, const char*> cases[] = {
      {"a b --username me --password-stdin", "--username has no effect: a is not a registry"},
      {"a b --token-file t", "--token-file has no effect: a is not a registry"},
      {"layout:models:v1 a --cache c",
       "--cache has no effect: layout:models:v1 is on this machine"},
      {"a layout:models:v1 --endpoint https://e", "--endpoint has no effect: a is on this machine"},
      {"oci://localhost:1/m:v1 a --cache c",
       "--cache has no effect: oci://localhost:1/m:v1 is a registry"},
      {"layout:models:v1 https://localhost:1/x/ --endpoint https://e",
       "--endpoint has no effect: it is for s3://"}};
  for (const auto& [words, problem] : cases) {
    const ToolRun run = workspace_.Moepack(std::string("diff ") + words + " </dev/null");
    EXPECT_EQ(run.status, 2) << words;
    EXPECT_THAT(run.err, HasSubstr(problem)) << words;
  }
}

class DiffOfNodes : public testing::Test {
 protected:
  DiffOfNodes() {
    const std::string build = "build fixtures/tiny-moe --no-verify --groups 2 -o ";
    Run(build + "q8 --recipe Q8_0");
    Run(build + "q4 --recipe Q4_0");
    Run("assemble q8 --group 0 -o a");
    Run("assemble q8 --group 1 -o b");
    Run("assemble q4 --group 0 -o c");
  }
  void Run(const std::string& arguments) {
    const ToolRun run = workspace_.Moepack(arguments);
    EXPECT_EQ(run.status, 0) << run.err;
  }
  Workspace workspace_;
};

TEST_F(DiffOfNodes, ANodeEqualsItself) {
  const ToolRun run = workspace_.Moepack("diff a a/moepack_node.json --exit-code");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.out, "a and a/moepack_node.json are the same\n");
}

TEST_F(DiffOfNodes, TwoGroupsDifferInExpertsAndFilesAndShareTheTrunk) {
  const auto json = workspace_.Json("diff a b --json");
  EXPECT_EQ(json["same"], false);
  EXPECT_EQ(json["changes"][0],
            (nlohmann::json{{"what", "node"}, {"name", "group"}, {"before", "0"}, {"after", "1"}}));
  EXPECT_EQ(json["changes"][1]["what"], "node");
  EXPECT_EQ(json["changes"][1]["before"], "0-7");
  EXPECT_EQ(json["changes"][1]["after"], "8-15");
  EXPECT_EQ(json["same_bytes"],
            std::filesystem::file_size(workspace_ / "a/node-00001-of-00003.gguf") +
                std::filesystem::file_size(workspace_ / "q8/trunk/trunk.gguf"))
      << "head and trunk are the same";
  const ToolRun run = workspace_.Moepack("diff a b --exit-code");
  EXPECT_EQ(run.status, 6);
  EXPECT_THAT(run.out, HasSubstr("; of the files of b, "));
}

TEST_F(DiffOfNodes, NamesAChangedRecipe) {
  const ToolRun run = workspace_.Moepack("diff a c");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, testing::ContainsRegex("tool +recipe +Q8_0 +Q4_0"));
  EXPECT_THAT(run.out, testing::ContainsRegex("distribution +sha256 "));
  EXPECT_THAT(run.out, testing::ContainsRegex("file +node-00003-of-00003.gguf "));
}

TEST_F(DiffOfNodes, RefusesToCompareANodeWithADistribution) {
  const ToolRun run = workspace_.Moepack("diff q8 a");
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("q8 is a distribution, but a is a node"));
  EXPECT_THAT(run.err, HasSubstr("hint: diff compares two distributions, or two nodes"));
  EXPECT_EQ(workspace_.Moepack("diff a q8").status, 2);
}

TEST_F(DiffOfNodes, WhatIsNotThereIsNotTakenForADistribution) {
  for (const char* arguments : {"diff a nothere", "diff nothere a"}) {
    const ToolRun run = workspace_.Moepack(arguments);
    EXPECT_EQ(run.status, 5) << arguments;
    EXPECT_THAT(run.err, HasSubstr("nothere")) << arguments;
    EXPECT_THAT(run.err, HasSubstr("No such file or directory")) << arguments;
  }
}

}  // namespace
}  // namespace moepack::cli
