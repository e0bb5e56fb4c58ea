#include <gmock/gmock.h>

#include <cmath>

#include "tests/tools/run_moepack.h"

namespace cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

constexpr const char* kText =
    "The router of a layer picks two of sixteen experts for every token; how often it picks each "
    "of "
    "them depends on the text. Licences, manuals, programs and headers use different experts.\n";

class EvalCommand : public ::testing::Test {
 protected:
  EvalCommand() {
    WriteAll(workspace_ / "text.txt", kText);
    WriteAll(workspace_ / "code.txt", "#include <stdio.h>\nint main(void) { return 0; }\n");
  }
  void Build(const std::string& options) {
    const ToolRun run = workspace_.Moepack("build fixtures/tiny-moe -o out " + options);
    ASSERT_EQ(run.status, 0) << run.err;
  }
  Workspace workspace_;
};

TEST_F(EvalCommand, MeasuresEveryGroupOnTheSameTokens) {
  Build("--groups 3 --overlay-file fixtures/tiny-overlay.json");
  const Json json = workspace_.Json("eval out --text text.txt code.txt --generate 8 --json");
  EXPECT_EQ(json["format"], "moepack-evaluation");
  ASSERT_EQ(json["groups"].size(), 3u);
  const double whole = json["unmasked"]["log_probability"];
  for (const Json& group : json["groups"]) {
    EXPECT_EQ(group["tokens"], json["unmasked"]["tokens"]);
    EXPECT_LT(group["log_probability"], whole);
    EXPECT_NEAR(group["split"]["ppl_ratio"],
                std::exp(whole - group["log_probability"].get<double>()), 1e-6);
    EXPECT_GT(group["split"]["kld"]["mean"], 0.05);
    EXPECT_LE(group["split"]["kld"]["median"], group["split"]["kld"]["p99"]);
    EXPECT_TRUE(group["total"].is_null());
    EXPECT_GT(group["capture"]["mean"], 0.1);
    EXPECT_LT(group["capture"]["mean"], 1);
    EXPECT_EQ(group["capture"]["layers"].size(), 3u);
    EXPECT_EQ(group["loops"]["sessions"], 2);
  }
  EXPECT_EQ(json["best"]["sessions"], 2);
  EXPECT_EQ(json["sessions"][1]["session"], "code.txt");
  EXPECT_TRUE(json["quantization"].is_null());
}

TEST_F(EvalCommand, OneGroupWithAllExpertsCostsNothing) {
  Build("--groups 1");
  const Json json =
      workspace_.Json("eval out --against fixtures/tiny-moe --text text.txt --generate 8 --json");
  const Json& best = json["best"];
  EXPECT_EQ(best["split"]["kld"]["largest"], 0);
  EXPECT_EQ(best["split"]["top1"], 1);
  EXPECT_EQ(best["total"]["kld"]["largest"], 0);
  EXPECT_EQ(json["quantization"]["kld"]["largest"], 0);
  EXPECT_EQ(best["capture"]["mean"], 1);
  EXPECT_EQ(best["capture"]["on_policy_mean"], 1);
  EXPECT_EQ(json["race_agreements"], 1);
}

TEST_F(EvalCommand, QuantizationIsToldFromTheSplit) {
  Build("--groups 2 --quantize balanced");
  const ToolRun run = workspace_.Moepack(
      "eval out --against fixtures/tiny-moe --text text.txt --generate 0 --gate 'quant_kld<0.5'");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("The split (masked against unmasked):\n"));
  EXPECT_THAT(run.out, HasSubstr("Split and quantization (masked against reference):\n"));
  EXPECT_THAT(run.out, HasSubstr("Quantization costs "));
  EXPECT_THAT(run.out, Not(HasSubstr("was not measured")));
  const Json json =
      workspace_.Json("eval out --against fixtures/tiny-moe --text text.txt --generate 0 --json");
  EXPECT_GT(json["quantization"]["kld"]["mean"], 0);
  EXPECT_LT(json["quantization"]["kld"]["mean"], json["best"]["split"]["kld"]["mean"]);
}

TEST_F(EvalCommand, WithoutTheSourceItSaysWhatIsMissing) {
  Build("--groups 2");
  const ToolRun run = workspace_.Moepack("eval out --text text.txt --generate 0");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("Damage by quantization was not measured"));
  EXPECT_THAT(run.out, HasSubstr("The split costs "));
  EXPECT_THAT(run.out, HasSubstr("Race and capture choose the same group for "));
}

TEST_F(EvalCommand, AGateThatFailsIsExitSix) {
  Build("--groups 2");
  const ToolRun run = workspace_.Moepack(
      "eval out --text text.txt --generate 0 --gate 'kld<=0.01' --gate 'capture>=0.01'");
  EXPECT_EQ(run.status, 6);
  EXPECT_THAT(run.out, HasSubstr("gate failed: best group: kld: expected <= 0.01, found "));
  EXPECT_THAT(run.err, HasSubstr("error: out: gates: best group: kld: expected <= 0.01, found "));
  EXPECT_THAT(run.err, Not(HasSubstr("capture:")));
}

TEST_F(EvalCommand, GatesThatCannotBeMeasuredAreUsageErrors) {
  Build("--groups 2");
  EXPECT_EQ(workspace_.Moepack("eval out --text text.txt --gate nonsense").status, 2);
  const ToolRun run =
      workspace_.Moepack("eval out --text code.txt --generate 0 --gate 'total_kld<1'");
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("--gate total_kld<1: expected --against SRC"));
}

TEST_F(EvalCommand, TheLoopTestHasToFitTheContext) {
  Build("--groups 2");
  const ToolRun run = workspace_.Moepack("eval out --text text.txt --context 64");
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("--generate: expected less than the context of 64, found 64"));
}

TEST_F(EvalCommand, ASessionOfOneTokenCannotBeScored) {
  Build("--groups 2");
  WriteAll(workspace_ / "ids", "7");
  const ToolRun run = workspace_.Moepack("eval out --tokens ids");
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err,
              HasSubstr("session \"ids\": tokens: expected more than 1 to score any, found 1"));
}

TEST_F(EvalCommand, AModelWithoutGroupsIsComparedAsAWhole) {
  const ToolRun run = workspace_.Moepack(
      "eval fixtures/tiny-moe --against fixtures/tiny-moe --text code.txt --generate 0");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("reference"));
  EXPECT_THAT(run.out, HasSubstr("Quantization costs less than a Q8_0."));
  EXPECT_THAT(run.out, Not(HasSubstr("group 0")));
}

}  // namespace
}  // namespace cli
