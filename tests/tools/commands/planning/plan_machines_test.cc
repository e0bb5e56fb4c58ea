#include "tools/commands/planning/plan_machines.h"

#include <gmock/gmock.h>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using testing::HasSubstr;

uint64_t FileBytes(const Workspace& workspace, const std::string& path) {
  return std::filesystem::file_size(workspace / path);
}

TEST(PlanMachines, CountsTheMemoryOfTheAssembledNodeCacheAndBuffers) {
  const Workspace workspace;
  const std::string plan =
      "plan fixtures/tiny-moe --node 7MB --node 5MBx2 --reserve 100k "
      "--recipe Q8_0 --context 256 --json";
  const auto json = workspace.Json(plan);
  const auto& nodes = json["memory"]["nodes"];
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(nodes[0]["machine"], 7'000'000);
  EXPECT_GT(nodes[0]["experts_per_layer"], nodes[1]["experts_per_layer"]);
  EXPECT_EQ(nodes[1]["experts_per_layer"], nodes[2]["experts_per_layer"]);
  EXPECT_EQ(json["scheme"], "contiguous-by-node");
  for (const auto& warning : json["warnings"])
    EXPECT_THAT(warning.get<std::string>(), testing::Not(HasSubstr("--no-uniform")));

  ASSERT_EQ(
      workspace.Moepack("shard-experts fixtures/tiny-moe --plan plan.json --recipe Q8_0 -o out")
          .status,
      0);
  for (const std::string group : {"0", "1", "2"}) {
    const std::string node = "node-" + group;
    const ToolRun run = workspace.Moepack("assemble out --group " + group + " -o " + node);
    ASSERT_EQ(run.status, 0) << run.err;
    uint64_t bytes = 0;
    for (const char* part : {"1", "2", "3"}) {
      bytes += FileBytes(workspace, node + "/node-0000" + part + "-of-00003.gguf");
    }
    const auto& need = nodes[std::stoul(group)];
    EXPECT_EQ(need["total"], bytes + 100'000 + need["cache"].get<uint64_t>());
    EXPECT_LE(need["total"], need["machine"]);
  }
}

TEST(PlanMachines, RefusesAMachineThatIsTooSmallAndNamesTheMissingBytes) {
  const ToolRun run = Workspace().Moepack(
      "plan fixtures/tiny-moe --node 6MB --node 2MB --reserve 0 "
      "--recipe Q8_0 --context 256");
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("node 1 (2.00 MB): trunk "));
  EXPECT_THAT(run.err, HasSubstr(" too much\n"));
}

TEST(PlanMachines, ContradictionsAreRefused) {
  const Workspace workspace;
  const auto refusal = [&](const std::string& options) {
    const ToolRun run = workspace.Moepack("plan fixtures/tiny-moe " + options);
    EXPECT_EQ(run.status, 2) << options << run.err;
    return run.err;
  };
  EXPECT_THAT(refusal("--groups 4 --node 16GBx3"),
              HasSubstr("--groups 4 and 3 machines of --node contradict each other"));
  EXPECT_THAT(refusal("--node 0"), HasSubstr("expected a machine with memory, found \"0\""));
  EXPECT_THAT(refusal("--groups 2 --context 0"),
              HasSubstr("expected tokens such as 4096 or 32k, found \"0\""));
  EXPECT_THAT(refusal("--groups 2 --context 4k --kv-type q3"),
              HasSubstr("expected one of f32, f16, bf16, q8_0"));
  EXPECT_THAT(refusal("--node 7MBx3 --no-uniform --context 256 --reserve 100k --recipe Q8_0"),
              HasSubstr("--no-uniform has no effect: every node holds as many experts as it has "
                        "room for"));
  EXPECT_THAT(refusal("--sweep --stages 2"), HasSubstr("--sweep"));
  EXPECT_THAT(refusal("--groups 2 --recipes Q8_0"), HasSubstr("--sweep"));
}

TEST(PlanMachines, WritesStagesIntoPlanAndDistribution) {
  const Workspace workspace;
  const auto json = workspace.Json("plan fixtures/tiny-moe --groups 2 --stages 2 --json");
  ASSERT_EQ(json["stages"].size(), 2u);
  EXPECT_EQ(json["stages"][1]["layers"]["last"], 2);
  const auto plan = nlohmann::json::parse(ReadFile(workspace / "plan.json"));
  ASSERT_EQ(plan["stages"].size(), 2u);
  ASSERT_EQ(workspace.Moepack("shard-experts fixtures/tiny-moe --plan plan.json -o out").status, 0);
  const auto written = nlohmann::json::parse(ReadFile(workspace / "out/distribution.json"));
  EXPECT_EQ(written["stages"], plan["stages"]);
  EXPECT_EQ(workspace.Moepack("verify out --against fixtures/tiny-moe").status, 0);
}

TEST(PlanMachines, AConfigAloneGivesSizesButNoPlan) {
  const Workspace workspace;
  std::filesystem::create_directories(workspace / "alone");
  std::filesystem::copy(workspace / "fixtures/tiny-moe/config.json", workspace / "alone");
  const ToolRun refused = workspace.Moepack("plan alone --groups 2");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("alone is only a config; a plan file needs the checkpoint"));
  const std::string options = " --groups 2 --recipe Q8_0 --context 1k --dry-run --json";
  const auto promised = workspace.Json("plan alone" + options);
  const auto real = workspace.Json("plan fixtures/tiny-moe" + options);
  EXPECT_EQ(promised["memory"]["nodes"][0]["trunk"], real["memory"]["nodes"][0]["trunk"]);
  EXPECT_EQ(promised["memory"]["nodes"][0]["experts"], real["memory"]["nodes"][0]["experts"]);
  EXPECT_EQ(promised["memory"]["nodes"][0]["cache"], real["memory"]["nodes"][0]["cache"]);
}

TEST(PlanMachines, TheNextStepOfASweepOfAConfigRuns) {
  const Workspace workspace;
  std::filesystem::create_directories(workspace / "alone");
  std::filesystem::copy(workspace / "fixtures/tiny-moe/config.json", workspace / "alone");
  const ToolRun sweep = workspace.Moepack(
      "plan alone --sweep --groups 2 --recipes Q8_0 --context 256 --reserve 100k --node 1GB");
  EXPECT_EQ(sweep.status, 0) << sweep.err;
  const std::string next = "\nnext:\n  moepack ";
  const size_t at = sweep.out.find(next);
  ASSERT_NE(at, std::string::npos) << sweep.out;
  const std::string command = sweep.out.substr(at + next.size());
  EXPECT_THAT(command, testing::EndsWith(" --dry-run\n"));
  const ToolRun plan = workspace.Moepack(command.substr(0, command.size() - 1));
  EXPECT_EQ(plan.status, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("no plan file: it needs the checkpoint"));
  EXPECT_THAT(plan.out, testing::Not(HasSubstr("would write")));
}

TEST(PlanMachines, OfADistributionItSaysWhatCountsTheMemoryOfANode) {
  const Workspace workspace;
  ASSERT_EQ(workspace.Moepack("build fixtures/tiny-moe --groups 3 --recipe Q8_0 -o out").status, 0);
  ASSERT_EQ(workspace.Moepack("publish out layout:models:v1").status, 0);
  for (const auto& [source, what] :
       {std::pair{"out", "out: expected a model, found a distribution"},
        std::pair{"layout:models:v1", ": expected a model, found a published distribution"},
        std::pair{"oci://localhost:1/a:v1",
                  ": expected a model, found a published distribution"}}) {
    const ToolRun run = workspace.Moepack(std::string("plan ") + source + " --node 1GBx3");
    EXPECT_EQ(run.status, 2) << run.err;
    EXPECT_THAT(run.err, HasSubstr(what));
    EXPECT_THAT(run.err, HasSubstr("plan NODE --groups 1 --context 4k --dry-run"));
  }
  ASSERT_EQ(workspace.Moepack("assemble out --group 1 -o node").status, 0);
  const auto json = workspace.Json("plan node --groups 1 --context 256 --dry-run --json");
  ASSERT_EQ(json["memory"]["nodes"].size(), 1u);
  EXPECT_GT(json["memory"]["nodes"][0]["cache"], 0);
  EXPECT_GT(json["memory"]["nodes"][0]["buffers"], 0);
}

TEST(PlanMachines, ASweepComparesGroupsAndRecipes) {
  const Workspace workspace;
  const auto json = workspace.Json(
      "plan fixtures/tiny-moe --sweep --groups 1,2,4 --recipes Q8_0,Q4_K_M --node 6MB "
      "--reserve 0 --context 256 --json");
  ASSERT_EQ(json["rows"].size(), 6u);
  EXPECT_TRUE(json["rows"][0]["fits"]);
  EXPECT_EQ(json["rows"][0]["recipe"], "Q4_K_M");
  EXPECT_FALSE(std::filesystem::exists(workspace / "plan.json"));
  const ToolRun text = workspace.Moepack("plan fixtures/tiny-moe --sweep");
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("bytes of one node\n"));
}

TEST(PlanMachines, ASweepShowsWhatFitsOnceAndHowToPlanIt) {
  const Workspace workspace;
  const std::string sweep =
      "plan fixtures/tiny-moe --sweep --groups 3,1,2 --recipes Q8_0,Q4_K_M --context 256 "
      "--reserve 100k --node ";
  const ToolRun run = workspace.Moepack(sweep + "6MB");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, testing::ContainsRegex("total  fits\n     2  Q4_K_M "));
  EXPECT_THAT(run.out, testing::Not(HasSubstr("     3  Q4_K_M"))) << "the same node as with 2";
  EXPECT_THAT(run.out, HasSubstr("     3  Q8_0 "));
  const std::string next = "\nnext:\n  moepack ";
  const size_t at = run.out.find(next);
  ASSERT_NE(at, std::string::npos) << run.out;
  const std::string command = run.out.substr(at + next.size());
  EXPECT_EQ(command,
            "plan fixtures/tiny-moe --node 6MBx2 --recipe Q4_K_M --context 256 --reserve "
            "100000\n");
  EXPECT_EQ(workspace.Moepack(command.substr(0, command.size() - 1)).status, 0);
  EXPECT_EQ(workspace.Moepack(sweep + "6MB -q").out.substr(0, 30),
            "best: 2 groups with Q4_K_M, 13");
  EXPECT_THAT(workspace.Moepack(sweep + "3MB").out, HasSubstr("\nnothing fits: try "));
}

TEST(PlanMachines, ASweepRefusesOptionsThatItIgnores) {
  const Workspace workspace;
  WriteAll(workspace / "groups.json", R"({"groups": [{"*": "0-7"}, {"*": "8-15"}]})");
  const std::string before = workspace.Listing();
  const auto refusal = [&](const std::string& options) {
    const ToolRun run = workspace.Moepack("plan fixtures/tiny-moe --sweep " + options);
    EXPECT_EQ(run.status, 2) << options << run.err;
    EXPECT_EQ(run.out, "") << options;
    return run.err;
  };
  for (const std::string options :
       {"--overlay-file fixtures/tiny-overlay.json", "--eligible 8", "--output p.json",
        "--recipe Q8_0", "--pure q8_0", "--trunk-type q8_0", "--experts-type q8_0",
        "--output-tensor-type q8_0", "--token-embedding-type q8_0", "--tensor-type a=q8_0",
        "--tensor-type-file rules", "--imatrix m.gguf", "--force"}) {
    const std::string name = options.substr(0, options.find(' '));
    EXPECT_THAT(refusal(options),
                testing::AnyOf(HasSubstr(name + " and --sweep cannot be used together\n"),
                               HasSubstr("--sweep and " + name + " cannot be used together\n")));
  }
  EXPECT_THAT(refusal("--recipes Q4_K_M,q4_k_m"),
              HasSubstr("--recipes: \"Q4_K_M\" is given twice\n"));
  EXPECT_THAT(refusal("--node 6MBx2"),
              HasSubstr("--sweep: expected one machine of --node, found 2\n"));
  EXPECT_THAT(refusal("--no-uniform"),
              HasSubstr("--sweep and --no-uniform cannot be used together\n"));
  EXPECT_THAT(refusal("--partition explicit:groups.json"),
              HasSubstr("--sweep and --partition explicit cannot be used together\n"));
  EXPECT_THAT(refusal("--partition session"),
              HasSubstr("--partition session needs --statistics FILE"));
  EXPECT_EQ(workspace.Listing(), before);
}

TEST(PlanMachines, ASweepNamesTheGroupCountsThatItLeavesOut) {
  const ToolRun run =
      Workspace().Moepack("plan fixtures/tiny-moe --sweep --groups 2,20,40 --recipes source,Q8_0");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("     2  source "));
  EXPECT_THAT(run.err,
              HasSubstr("20 groups: left out: there are 16 experts in the smallest layer"));
  EXPECT_THAT(run.err,
              HasSubstr("40 groups: left out: there are 16 experts in the smallest layer"));
}

TEST(PlanMachines, ASweepMeasuresTheDamageOfEveryRecipe) {
  const Workspace workspace;
  const std::string sweep =
      "plan fixtures/tiny-moe --sweep --groups 2 --recipes Q4_K_M,Q8_0,source --damage";
  const auto json = workspace.Json(sweep + " --json");
  ASSERT_EQ(json["rows"].size(), 3u);
  EXPECT_EQ(json["rows"][0]["recipe"], "source");
  EXPECT_EQ(json["rows"][0]["damage"], 0.0);
  EXPECT_EQ(json["rows"][1]["recipe"], "Q8_0");
  EXPECT_GT(json["rows"][1]["damage"], 0.0);
  EXPECT_GT(json["rows"][2]["damage"], json["rows"][1]["damage"]);
  EXPECT_THAT(workspace.Moepack(sweep).out, HasSubstr("   damage\n"));
  const ToolRun config = workspace.Moepack("plan fixtures/tiny-moe/config.json --sweep --damage");
  EXPECT_EQ(config.status, 4);
  EXPECT_THAT(config.err, HasSubstr("config.json: expected weights to measure, found a config "
                                    "alone"));
  EXPECT_EQ(workspace.Moepack("plan fixtures/tiny-moe --groups 2 --damage").status, 2);
}

}  // namespace
}  // namespace moepack::cli
