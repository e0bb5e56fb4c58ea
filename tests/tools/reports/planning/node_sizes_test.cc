#include "tools/reports/planning/node_sizes.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "fixtures/generator.h"
#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using testing::HasSubstr;

// The size of the largest node that the dry run of a build plans.
uint64_t LargestOfDryRun(const Workspace& workspace, const std::string& arguments) {
  const auto plan = workspace.Json("build " + arguments + " --dry-run --json -o out");
  uint64_t largest = 0;
  for (const auto& node : plan["nodes"]) {
    largest = std::max(largest, node["bytes"]["total"].get<uint64_t>());
  }
  return largest;
}

// Compares every format of the summary with a dry run each.
void ExpectSizesOfDryRuns(const Workspace& workspace, const std::string& source,
                          const std::string& options) {
  const auto summary =
      workspace.Json("list-tensors " + source +
                     " --summary --json --groups 2,3 --quantize Q4_K_M,Q8_0,balanced " + options);
  ASSERT_EQ(summary["node_sizes"].size(), 2u) << source;
  for (const auto& row : summary["node_sizes"]) {
    const std::string groups = " --groups " + row["groups"].dump() + " ";
    ASSERT_EQ(row["bytes"].size(), 4u) << row;
    for (const auto& [format, bytes] : row["bytes"].items()) {
      const std::string types = format == "source" ? "" : "--quantize " + format + " " + options;
      EXPECT_EQ(bytes, LargestOfDryRun(workspace, source + groups + types))
          << source << groups << format << " " << options;
    }
  }
}

TEST(NodeSizes, MatchDryRunsOfBuildToTheByte) {
  ExpectSizesOfDryRuns(Workspace(), "fixtures/tiny-moe", "");
}

TEST(NodeSizes, LeaveOutWhatTheConversionDrops) {
  const Workspace workspace;
  const fixtures::Options options = {.hidden = 256, .ff = 256};
  for (const char* layout : {"qwen3-next", "qwen3.5-moe", "deepseek-v3"}) {
    ASSERT_TRUE(fixtures::MakeCheckpoint(layout, workspace / layout, options));
    ExpectSizesOfDryRuns(workspace, layout, "");
    ExpectSizesOfDryRuns(workspace, layout, "--no-mtp");
  }
  const auto size = [&](const std::string& more) {
    return workspace
        .Json("list-tensors qwen3-next --summary --json --groups 2 --quantize Q8_0 " +
              more)["node_sizes"][0]["bytes"]["Q8_0"]
        .get<uint64_t>();
  };
  EXPECT_LT(size("--no-mtp"), size(""));
}

TEST(NodeSizes, UseTheTypesOfAGgufSource) {
  const Workspace workspace;
  ASSERT_EQ(workspace.Moepack("quantize fixtures/tiny-moe --recipe BF16 -o t.gguf").status, 0);
  ExpectSizesOfDryRuns(workspace, "t.gguf", "");
}

TEST(NodeSizes, DefaultToGroupCountsThatLeaveEnoughExpertsPerNode) {
  const auto summary = Workspace().Json("list-tensors fixtures/tiny-moe --summary --json");
  std::vector<int> groups, experts;
  for (const auto& row : summary["node_sizes"]) {
    groups.push_back(row["groups"]);
    experts.push_back(row["experts"]);
  }
  EXPECT_THAT(groups, testing::ElementsAre(2, 4, 8));
  EXPECT_THAT(experts, testing::ElementsAre(8, 4, 2));
}

TEST(NodeSizes, RequireThatNamedCountsAndRecipesArePossible) {
  const Workspace workspace;
  const auto run = [&](const std::string& options) {
    return workspace.Moepack("list-tensors fixtures/tiny-moe " + options);
  };
  const ToolRun many = run("--summary --groups 2,17");
  EXPECT_EQ(many.status, 2);
  EXPECT_THAT(many.err, HasSubstr("17"));
  const ToolRun unknown = run("--summary --quantize Q4_K_M,Q9");
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.err, HasSubstr("Q9"));
  for (const char* option : {"--groups 2", "--quantize Q8_0", "--no-mtp"}) {
    EXPECT_EQ(run(option).status, 2) << option << " without --summary";
  }
}

TEST(NodeSizes, UseTheTypesOfTheSourceForAFamilyWithoutAGgufForm) {
  const Workspace workspace;
  ASSERT_TRUE(fixtures::MakeCheckpoint("jamba", workspace / "jamba"));
  const auto summary = workspace.Json("list-tensors jamba --summary --json");
  EXPECT_EQ(summary["node_sizes"][0]["bytes"].size(), 1u);
  EXPECT_THAT(summary["node_size_notes"].dump(), HasSubstr("no sizes by recipe"));
  EXPECT_EQ(workspace.Moepack("list-tensors jamba --summary --quantize Q8_0").status, 4);
}

}  // namespace
}  // namespace moepack::cli
