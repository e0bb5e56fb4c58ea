#include "tools/options/budget_options.h"

#include <gmock/gmock.h>

#include <set>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using testing::HasSubstr;

class PlanBudget : public testing::Test {
 protected:
  void ExpectBudgetRefused(const std::string& arguments, const std::string& message,
                           int status = 2) {
    const ToolRun run = workspace_.Moepack(arguments);
    EXPECT_EQ(run.status, status) << arguments << "\n" << run.err;
    EXPECT_THAT(run.err, HasSubstr(message)) << arguments;
  }
  Workspace workspace_;
};

TEST_F(PlanBudget, PinsTheTypesAndBuildWritesThem) {
  const auto json = workspace_.Json(
      "plan fixtures/tiny-moe --groups 2 --eligible 8 --budget 5MB -o plan.json --json");
  EXPECT_EQ(json["types"]["budget"], 5000000);
  EXPECT_LE(json["types"]["bytes"], 5000000);
  EXPECT_GT(json["types"]["bytes"], 4500000);
  const auto plan = nlohmann::json::parse(ReadFile(workspace_ / "plan.json"));
  EXPECT_EQ(plan["types"]["bytes"], json["types"]["bytes"]);
  const ToolRun build = workspace_.Moepack("build fixtures/tiny-moe --plan plan.json -o out");
  ASSERT_EQ(build.status, 0) << build.err;
  ASSERT_EQ(workspace_.Moepack("assemble out --group 1 -o node").status, 0);
  const auto node = workspace_.Json("list-tensors node/node-00001-of-00003.gguf --json");
  uint64_t bytes = 0;
  for (const auto& tensor : node["tensors"]) bytes += tensor["bytes"].get<uint64_t>();
  EXPECT_EQ(json["types"]["bytes"], bytes);
}

TEST_F(PlanBudget, TheTableShowsTheChosenTypes) {
  const ToolRun run =
      workspace_.Moepack("plan fixtures/tiny-moe --groups 2 --budget 5MB --dry-run");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("types for tensors of at most 5.00 MB on a node: "));
  EXPECT_THAT(run.out, HasSubstr("gate, up "));
  EXPECT_FALSE(std::filesystem::exists(workspace_ / "plan.json"));
}

TEST_F(PlanBudget, TypesForExpertsCanBeNamed) {
  const std::string plan = "plan fixtures/tiny-moe --groups 2 --dry-run ";
  const auto json = workspace_.Json(plan + "--budget 2.8MB --budget-types q2_K,iq3_s --json");
  std::set<std::string> types;
  for (const auto& part : json["types"]["parts"]) {
    if (!part["layer"].is_null() && part["part"] != "attention")
      types.insert(part["type"].get<std::string>());
  }
  EXPECT_TRUE(types.contains("iq3_s")) << json["types"].dump();
  for (const char* type : {"q3_K", "iq4_xs", "q4_K"}) EXPECT_FALSE(types.contains(type)) << type;
  ExpectBudgetRefused(plan + "--budget 5MB --budget-types q4_K,q9_K",
                      "--budget-types: type: expected one of ");
  ExpectBudgetRefused(plan + "--budget 5MB --budget-types q4_K,iq2_xs",
                      "tensor \"blk.0.ffn_down_exps.weight\": --budget: expected an importance "
                      "matrix");
  ExpectBudgetRefused(plan + "--budget-types q4_K", "--budget-types needs --budget");
}

// It affects nothing without a budget, and is taken everywhere.
TEST_F(PlanBudget, JobsAreTakenWithoutIt) {
  const ToolRun run = workspace_.Moepack("plan fixtures/tiny-moe --groups 2 --jobs 1 --dry-run");
  EXPECT_EQ(run.status, 0) << run.err;
}

TEST_F(PlanBudget, RefusesContradictoryOptions) {
  const std::string plan = "plan fixtures/tiny-moe --groups 2 --budget 5MB ";
  ExpectBudgetRefused(plan + "--node 6MB", "cannot be used together");
  ExpectBudgetRefused(plan + "--sweep", "cannot be used together");
  for (const char* types : {"--recipe F32", "--pure q4_K", "--trunk-type f16",
                            "--experts-type q4_0", "--tensor-type a=q4_K"})
    ExpectBudgetRefused(plan + types, "cannot be used together");
  ExpectBudgetRefused("plan fixtures/tiny-moe --groups 2,4 --budget 5MB",
                      "several numbers of groups and options about machines or --budget");
  ExpectBudgetRefused("plan fixtures/tiny-moe --groups 2 --budget 100k",
                      "budget: expected at least ");
  ASSERT_EQ(workspace_.Moepack(plan + "-o plan.json").status, 0);
  const std::string build = "build fixtures/tiny-moe --plan plan.json -o out ";
  ExpectBudgetRefused(build + "--recipe Q4_K_M",
                      "plan.json pins the types, so options that choose types");
  ExpectBudgetRefused(build + "--format safetensors",
                      "--format safetensors cannot be used with options that choose types");
  std::string text = ReadFile(workspace_ / "plan.json");
  const size_t rules = text.find("\"tensor_types\": [");
  ASSERT_NE(rules, text.npos);
  text.insert(rules + 17, "\"(=q4_K\", ");
  WriteAll(workspace_ / "plan.json", text);
  ExpectBudgetRefused(build, "plan.json: types: tensor_types \"(=q4_K\": ", 3);
  EXPECT_FALSE(std::filesystem::exists(workspace_ / "out"));
}

}  // namespace
}  // namespace moepack::cli
