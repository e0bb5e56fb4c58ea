#include <gmock/gmock.h>

#include <cmath>

#include "tests/tools/terminal_moepack.h"

namespace moepack::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

constexpr const char* kEvalText =
    "The router of a layer picks two of sixteen experts for every token; how often it picks each "
    "of "
    "them depends on the text. Licences, manuals, programs and headers use different experts.\n";

class EvalCommand : public ::testing::Test {
 protected:
  EvalCommand() {
    WriteAll(workspace_ / "text.txt", kEvalText);
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

TEST_F(EvalCommand, TextAndJsonNameTheBestGroupByCaptureAndByKld) {
  Build("--groups 3");
  const std::string options = "eval out --text text.txt code.txt --generate 0";
  const Json json = workspace_.Json(options + " --json");
  const auto extreme = [&](const char* what, const auto& better) {
    const Json* best = &json["groups"][0];
    for (const Json& group : json["groups"]) {
      if (better(group[what == std::string("capture") ? "capture" : "split"], *best)) best = &group;
    }
    return (*best)["label"];
  };
  const auto more = [](const Json& value, const Json& best) {
    return value["mean"].get<double>() > best["capture"]["mean"].get<double>();
  };
  const auto less = [](const Json& value, const Json& best) {
    return value["kld"]["mean"].get<double>() < best["split"]["kld"]["mean"].get<double>();
  };
  EXPECT_EQ(json["best_groups"]["capture"], extreme("capture", more));
  EXPECT_EQ(json["best_groups"]["kld"], extreme("kld", less));
  EXPECT_EQ(json["best"]["label"], "best by capture");
  EXPECT_EQ(json["best_by_kld"]["label"], "best by KLD");
  EXPECT_LE(json["best_by_kld"]["split"]["kld"]["mean"], json["best"]["split"]["kld"]["mean"]);
  const ToolRun run = workspace_.Moepack(options);
  ASSERT_EQ(run.status, 0) << run.err;
  const std::string most = json["best_groups"]["capture"], least = json["best_groups"]["kld"];
  EXPECT_THAT(run.out, HasSubstr("\nOver all texts " + most + " captures most ("));
  EXPECT_THAT(run.out, HasSubstr(most == least ? ") and has the lowest mean KLD ("
                                               : "), but " + least + " has the lowest mean KLD ("));
  EXPECT_THAT(run.out, HasSubstr("best by capture"));
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

TEST_F(EvalCommand, SeparatesQuantizationFromTheSplit) {
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

TEST_F(EvalCommand, SaysWhatIsMissingWithoutTheSource) {
  Build("--groups 2");
  const ToolRun run = workspace_.Moepack("eval out --text text.txt --generate 0");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("Damage by quantization was not measured"));
  EXPECT_THAT(run.out, HasSubstr("The split is worse than an IQ1_M where "));
  EXPECT_THAT(run.out, HasSubstr("Race and capture choose the same group for "));
}

TEST_F(EvalCommand, AFailedGateHasExitStatus6) {
  Build("--groups 2");
  const ToolRun run = workspace_.Moepack(
      "eval out --text text.txt --generate 0 --gate 'kld<=0.01' --gate 'capture>=0.01'");
  EXPECT_EQ(run.status, 6);
  EXPECT_THAT(run.out, HasSubstr("gate failed: best by capture: kld: expected <= 0.01, found "));
  EXPECT_THAT(run.err,
              HasSubstr("error: out: gates: best by capture: kld: expected <= 0.01, found "));
  EXPECT_THAT(run.err, Not(HasSubstr("capture: expected")));
  EXPECT_THAT(run.err, HasSubstr("hint: try build --refit, or a plan made from statistics, or an "
                                 "overlay, or fewer groups"));
}

TEST_F(EvalCommand, CiFormatsHaveATestCasePerGate) {
  Build("--groups 2");
  const std::string command =
      "eval out --text text.txt --generate 0 --gate 'kld<=0.01' --gate 'capture>=0.01' --format ";
  const ToolRun github = workspace_.Moepack(command + "github");
  EXPECT_EQ(github.status, 6) << github.err;
  EXPECT_THAT(github.out, HasSubstr("::error file=out/distribution.json,title=moepack eval%3A "
                                    "kld<=0.01::best by capture: kld: expected <= 0.01, found "));
  EXPECT_THAT(github.out, HasSubstr("::notice file=out/distribution.json,title=moepack eval%3A "
                                    "measured::Over all texts group "));
  EXPECT_THAT(github.out, HasSubstr("\nout: failed: 1 of 2 gates\n"));
  const ToolRun junit = workspace_.Moepack(command + "junit");
  EXPECT_EQ(junit.status, 6);
  EXPECT_THAT(junit.out, HasSubstr("<testsuite name=\"moepack eval out\" tests=\"3\" "
                                   "failures=\"1\">"));
  EXPECT_THAT(junit.out,
              HasSubstr("<failure type=\"kld&lt;=0.01\" message=\"best by capture: kld"));
  EXPECT_THAT(junit.out,
              HasSubstr("<testcase classname=\"moepack.eval\" name=\"capture&gt;=0.01\"/>"));
}

TEST_F(EvalCommand, CountsTokensOnATerminal) {
  Build("--groups 2");
  const ToolRun run = OnATerminal(workspace_, "eval out --text text.txt --generate 8");
  EXPECT_EQ(run.status, 0) << run.out;
  EXPECT_THAT(run.out, testing::ContainsRegex(
                           "evaluating +[0-9]+%  [0-9,]+ of [0-9,]+ tokens  [0-9.,]+ tokens/s"));
  EXPECT_THAT(run.out, Not(HasSubstr("kB/s")));
}

TEST_F(EvalCommand, GatesThatCannotBeMeasuredAreUsageErrors) {
  Build("--groups 2");
  EXPECT_EQ(workspace_.Moepack("eval out --text text.txt --gate nonsense").status, 2);
  const ToolRun run =
      workspace_.Moepack("eval out --text code.txt --generate 0 --gate 'total_kld<1'");
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("--gate total_kld<1: total_kld needs --against SRC"));
  const ToolRun loops =
      workspace_.Moepack("eval out --text code.txt --generate 0 --gate 'loops<1'");
  EXPECT_EQ(loops.status, 2);
  EXPECT_THAT(loops.err, HasSubstr("--gate loops<1: loops needs --generate above 0"));
}

TEST_F(EvalCommand, WhatNeedsAllExpertsIsRefusedWhereSomeAreOnNoNode) {
  Build("--groups 2 --partition same --eligible 6 --statistics fixtures/statistics/profile.json");
  const std::string command = "eval out --text code.txt --generate 0 ";
  const ToolRun alone = workspace_.Moepack(command);
  EXPECT_EQ(alone.status, 2);
  EXPECT_THAT(alone.err,
              HasSubstr("error: out: experts: expected all of them, found 30 on no node"));
  EXPECT_THAT(alone.err, HasSubstr("compare with the source: --against SRC"));
  const ToolRun gate =
      workspace_.Moepack(command + "--against fixtures/tiny-moe --gate 'quant_kld<=0.05'");
  EXPECT_EQ(gate.status, 2);
  EXPECT_THAT(gate.err, HasSubstr("--gate quant_kld<=0.05: experts: expected all of them, found 30 "
                                  "on no node"));
  const ToolRun failed =
      workspace_.Moepack(command + "--against fixtures/tiny-moe --gate 'total_kld<=0'");
  EXPECT_EQ(failed.status, 6);
  EXPECT_THAT(failed.err, HasSubstr("hint: try build --refit, or an overlay, or fewer groups\n"));
}

TEST_F(EvalCommand, TheLoopTestMustFitTheContext) {
  Build("--groups 2");
  const ToolRun run = workspace_.Moepack("eval out --text text.txt --context 64");
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("--generate must be less than the context (64)"));
}

// A session of 1024 positions takes 3 MiB.
TEST_F(EvalCommand, GroupsRunInSeveralPassesWhereTheMemoryDoesNotHoldThemAll) {
  Build("--groups 4");
  const std::string options =
      "eval out --against fixtures/tiny-moe --text text.txt code.txt --context 1024 --generate 4 "
      "--json";
  const Json whole = workspace_.Json(options);
  EXPECT_EQ(whole["groups"].size(), 4u);
  for (const char* memory : {"12M", "24M"})
    EXPECT_EQ(workspace_.Json(options + " --memory " + memory), whole) << memory;
}

TEST_F(EvalCommand, TooLittleMemoryForOneGroupIsAUsageError) {
  Build("--groups 4");
  const ToolRun run =
      workspace_.Moepack("eval out --text text.txt --context 1024 --generate 0 --memory 4M");
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("--memory: expected at least 6"));
  EXPECT_THAT(run.err, HasSubstr("bytes for what runs side by side in a context of 1024, found "
                                 "4000000"));
  EXPECT_THAT(run.err, HasSubstr("give more, or a smaller --context"));
  EXPECT_EQ(run.out, "");
}

TEST_F(EvalCommand, ASessionOfOneTokenCannotBeScored) {
  Build("--groups 2");
  WriteAll(workspace_ / "ids", "7");
  const ToolRun run = workspace_.Moepack("eval out --tokens ids");
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err,
              HasSubstr("session \"ids\": tokens: expected more than 1 to score any, found 1"));
}

TEST_F(EvalCommand, ExplainsTheTypesOfLlamaCppOnlyWhereOneIsNamed) {
  const ToolRun run = workspace_.Moepack("eval fixtures/tiny-moe --tokens 5,83 --generate 0");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, Not(HasSubstr("Types of llama.cpp")));
  Build("--groups 2");
  EXPECT_THAT(workspace_.Moepack("eval out --tokens 5,83 --generate 0").out,
              HasSubstr("(Types of llama.cpp, by what they cost Llama-3-8B.)"));
}

TEST_F(EvalCommand, ComparesAModelWithoutGroupsAsAWhole) {
  const ToolRun run = workspace_.Moepack(
      "eval fixtures/tiny-moe --against fixtures/tiny-moe --text code.txt --generate 0");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("reference"));
  EXPECT_THAT(run.out, HasSubstr("Quantization costs less than a Q8_0."));
  EXPECT_THAT(run.out, Not(HasSubstr("group 0")));
}

}  // namespace
}  // namespace moepack::cli
