#include <gmock/gmock.h>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using testing::HasSubstr;

constexpr const char* kPlan = "plan fixtures/tiny-moe --groups 3 ";

TEST(Plan, WritesPlanJsonIntoTheWorkingDirectory) {
  const Workspace workspace;
  const ToolRun run = workspace.Moepack(kPlan);
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("wrote plan.json"));
  const auto plan = nlohmann::json::parse(ReadFile(workspace / "plan.json"));
  EXPECT_EQ(plan["format"], "moepack-plan");
  EXPECT_EQ(plan["partition"]["groups"].size(), 3u);
}

TEST(Plan, JsonHasTheBytesOfEveryNode) {
  const auto json = Workspace().Json(std::string(kPlan) + "--json");
  ASSERT_EQ(json["nodes"].size(), 3u);
  for (const auto& node : json["nodes"]) {
    EXPECT_EQ(node["eligible"]["least"], 6);
    EXPECT_EQ(node["eligible"]["most"], 6);
    const auto& bytes = node["bytes"];
    EXPECT_EQ(bytes["total"], bytes["trunk"].get<uint64_t>() + bytes["group"].get<uint64_t>() +
                                  bytes["overlay"].get<uint64_t>());
    // Six experts of three layers, 393,216 bytes each.
    EXPECT_GE(bytes["group"], 18 * 393216);
  }
  EXPECT_EQ(json["output"]["file"], "plan.json");
}

// Expert 14 of layer 2 is in no group, but in the overlay.
TEST(Plan, ReportAndWarningCountTheSameExpertsOnNoNode) {
  const Workspace workspace;
  WriteAll(workspace / "groups.json", R"({"groups": [{"*": "0-6"}, {"*": "7-13"}]})");
  const ToolRun run = workspace.Moepack(
      "plan fixtures/tiny-moe --partition explicit:groups.json --overlay-file "
      "fixtures/tiny-overlay.json --dry-run");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("on no node: 5 experts (all layers)\n"));
  EXPECT_THAT(run.err, HasSubstr("warning: remainder: 5 experts in 3 layers are on no node"));
}

TEST(Plan, AnExistingPlanIsKeptUnlessForced) {
  const Workspace workspace;
  WriteAll(workspace / "plan.json", "mine");
  const ToolRun refused = workspace.Moepack(kPlan);
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(ReadFile(workspace / "plan.json"), "mine");
  EXPECT_THAT(refused.err, HasSubstr("hint: --force replaces it"));
  EXPECT_EQ(workspace.Moepack(std::string(kPlan) + "--force").status, 0);
  EXPECT_THAT(ReadFile(workspace / "plan.json"), HasSubstr("moepack-plan"));
}

TEST(Plan, NeverReplacesAnInput) {
  const Workspace workspace;
  for (const std::string input :
       {"fixtures/tiny-moe/config.json", "fixtures/tiny-moe/model-00001-of-00003.safetensors",
        "fixtures/tiny-overlay.json"}) {
    const std::string before = ReadFile(workspace / input);
    const ToolRun run = workspace.Moepack(
        std::string(kPlan) + "--overlay-file fixtures/tiny-overlay.json --force -o " + input);
    EXPECT_EQ(run.status, 2) << input << run.err;
    EXPECT_EQ(ReadFile(workspace / input), before) << input;
  }
}

TEST(Plan, ADryRunWritesNothingAndGivesTheExactSize) {
  const Workspace workspace;
  const std::string before = workspace.Listing();
  const auto dry = workspace.Json(std::string(kPlan) + "--dry-run --json");
  EXPECT_EQ(workspace.Listing(), before);
  EXPECT_EQ(dry["output"]["written"], false);
  EXPECT_EQ(workspace.Moepack(kPlan).status, 0);
  EXPECT_EQ(std::filesystem::file_size(workspace / "plan.json"), dry["output"]["bytes"]);
}

TEST(Plan, ADashWritesThePlanToStdoutAndTheReportToStderr) {
  const Workspace workspace;
  const ToolRun run = workspace.Moepack(std::string(kPlan) + "-o -");
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(nlohmann::json::parse(run.out)["format"], "moepack-plan");
  EXPECT_THAT(run.err, HasSubstr("3 groups, contiguous, uniform"));
}

TEST(Plan, ADirectoryWhoseNameIsNotUtf8IsNamedWithEscapes) {
  const Workspace workspace;
  std::filesystem::rename(workspace / "fixtures/tiny-moe", workspace / "fixtures/m\xff");
  const ToolRun run = workspace.Moepack("plan fixtures/m\xff --groups 2");
  ASSERT_EQ(run.status, 0) << run.err;
  const auto plan = nlohmann::json::parse(ReadFile(workspace / "plan.json"));
  EXPECT_EQ(plan["model"]["source"], "m\\xff");
}

TEST(Plan, ALinkThatLoopsIsAnErrorAndOneToNothingIsReplaced) {
  const Workspace workspace;
  std::filesystem::create_symlink("loop", workspace / "loop");
  const ToolRun loop = workspace.Moepack("plan fixtures/tiny-moe --groups 2 -o loop --force");
  EXPECT_EQ(loop.status, 5);
  EXPECT_THAT(loop.err, HasSubstr("loop: look it up: "));
  std::filesystem::create_symlink("missing", workspace / "dangling");
  const ToolRun kept = workspace.Moepack("plan fixtures/tiny-moe --groups 2 -o dangling");
  EXPECT_EQ(kept.status, 2);
  EXPECT_THAT(kept.err, HasSubstr("dangling already exists"));
  const ToolRun replaced =
      workspace.Moepack("plan fixtures/tiny-moe --groups 2 -o dangling --force");
  EXPECT_EQ(replaced.status, 0) << replaced.err;
  EXPECT_THAT(ReadFile(workspace / "dangling"), HasSubstr("moepack-plan"));
}

TEST(Plan, PutsAnOverlayOnEveryNode) {
  const auto json =
      Workspace().Json(std::string(kPlan) + "--overlay-file fixtures/tiny-overlay.json --json");
  EXPECT_EQ(json["overlay_version"], "generalists-1");
  for (const auto& node : json["nodes"]) EXPECT_EQ(node["overlay"]["most"], 2);
}

TEST(Plan, AnIndexAloneGetsTheSizesPromisedByItsConfig) {
  const Workspace workspace;
  std::filesystem::create_directories(workspace / "index");
  for (const char* name : {"model.safetensors.index.json", "config.json"}) {
    std::filesystem::copy(workspace / "fixtures/tiny-moe" / name, workspace / "index");
  }
  const std::string options = " --groups 2 --dry-run --json";
  const auto json = workspace.Json("plan index/model.safetensors.index.json" + options);
  const auto real = workspace.Json("plan fixtures/tiny-moe" + options);
  EXPECT_EQ(json["nodes"].size(), 2u);
  const auto group = [](const auto& plan) {
    return plan["nodes"][0]["bytes"]["group"].template get<uint64_t>();
  };
  // The same tensors; headers end at other offsets, by less than a page.
  EXPECT_LT(group(json) > group(real) ? group(json) - group(real) : group(real) - group(json),
            4096u);
}

}  // namespace
}  // namespace moepack::cli
