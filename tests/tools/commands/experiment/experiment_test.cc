#include <gmock/gmock.h>

#include <sstream>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

// Six short sessions of two buckets.
constexpr const char* kHeldOut =
    R"({"session": "a", "bucket": "c", "text": "static int compare(const void *a, const void *b);"}
{"session": "b", "bucket": "c", "text": "#include <stdio.h>\nint main(void) { return 0; }\n"}
{"session": "c", "bucket": "c", "text": "typedef struct list { struct list *next; } list;"}
{"session": "d", "bucket": "prose", "text": "The router of a layer picks two of sixteen experts."}
{"session": "e", "bucket": "prose", "text": "You may copy and distribute verbatim copies of it."}
{"session": "f", "bucket": "prose", "text": "Licences and manuals use different experts than code."}
)";

class ExperimentCommand : public ::testing::Test {
 protected:
  ExperimentCommand() { WriteAll(workspace_ / "texts.jsonl", kHeldOut); }

  Json Document(const std::string& name = "e.json") const {
    return Json::parse(ReadFile(workspace_ / name));
  }
  // The error of a run that is expected to fail.
  std::string ErrorOf(const std::string& arguments, int status) const {
    const ToolRun run = workspace_.Moepack("experiment " + arguments);
    EXPECT_EQ(run.status, status) << run.err;
    return run.err;
  }

  Workspace workspace_;
  const std::string model_ = "fixtures/tiny-moe --text texts.jsonl --eligible 8 ";
  const std::string two_ = model_ + "--strategies contiguous,modulo -o e.json ";
};

TEST_F(ExperimentCommand, ComparesStrategiesAtEqualBytesOnTheSameTokens) {
  const ToolRun run = workspace_.Moepack("experiment " + two_);
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("6 held-out sessions, "));
  EXPECT_THAT(run.out, HasSubstr("\nPaired by session:\n"));
  const Json document = Document();
  EXPECT_TRUE(document["complete"].get<bool>());
  ASSERT_EQ(document["rows"].size(), 2u);
  const Json &first = document["rows"][0], &second = document["rows"][1];
  EXPECT_EQ(first["row"], "split, contiguous");
  EXPECT_EQ(first["eligible"], 8);
  EXPECT_EQ(first["node_bytes"], second["node_bytes"]);
  EXPECT_TRUE(first["difference"].is_null());
  EXPECT_EQ(second["difference"]["from"], "split, contiguous");
  ASSERT_EQ(first["sessions"].size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(first["sessions"][i]["session"], second["sessions"][i]["session"]);
    EXPECT_EQ(first["sessions"][i]["tokens"], second["sessions"][i]["tokens"]);
    EXPECT_EQ(first["sessions"][i]["nodes"].size(), 2u);
  }
  EXPECT_GT(first["figures"]["any"]["kld"]["mean"].get<double>(), 0.1);
  EXPECT_GT(first["figures"]["any"]["kld"]["error"].get<double>(), 0);
  EXPECT_LE(first["figures"]["best"]["kld"]["mean"], first["figures"]["race"]["kld"]["mean"]);
}

TEST_F(ExperimentCommand, OneSessionHasNoStandardError) {
  const std::string text(kHeldOut);
  WriteAll(workspace_ / "one.jsonl", text.substr(0, text.find('\n') + 1));
  const ToolRun run = workspace_.Moepack(
      "experiment fixtures/tiny-moe --text one.jsonl --eligible 8 --strategies contiguous,modulo "
      "-o e.json");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("one session shows no standard error\n"));
  EXPECT_THAT(run.out, Not(HasSubstr("±")));
}

// The experiment's figures are those of eval on the distribution of the plan.
TEST_F(ExperimentCommand, GivesTheFiguresOfEval) {
  ASSERT_EQ(workspace_.Moepack("experiment " + model_ + "--strategies contiguous -o e.json").status,
            0);
  ASSERT_EQ(workspace_.Moepack("build fixtures/tiny-moe --groups 2 --eligible 8 -o out").status, 0);
  const Json eval = workspace_.Json("eval out --text texts.jsonl --generate 0 --json");
  const Json figures = Document()["rows"][0]["figures"];
  EXPECT_NEAR(figures["capture"]["kld"]["mean"], eval["best"]["split"]["kld"]["mean"], 1e-9);
  EXPECT_NEAR(figures["race"]["kld"]["mean"], eval["race_winner"]["split"]["kld"]["mean"], 1e-9);
  EXPECT_NEAR(figures["best"]["kld"]["mean"], eval["best_by_kld"]["split"]["kld"]["mean"], 1e-9);
  EXPECT_NEAR(figures["capture"]["top1"]["mean"], eval["best"]["split"]["top1"], 1e-9);
  EXPECT_NEAR(figures["capture"]["capture"]["mean"], eval["best"]["capture"]["mean"], 1e-6);
  const double lost = eval["unmasked"]["log_probability"].get<double>() -
                      eval["best"]["log_probability"].get<double>();
  EXPECT_NEAR(figures["capture"]["loss"]["mean"], lost, 1e-9);
}

TEST_F(ExperimentCommand, SeparatesQuantizationFromTheSplit) {
  ASSERT_EQ(
      workspace_
          .Moepack("experiment " + model_ + "--strategies contiguous --recipes Q4_K_M -o e.json")
          .status,
      0);
  const Json document = Document();
  ASSERT_EQ(document["rows"].size(), 3u);
  EXPECT_EQ(document["rows"][1]["row"], "quantization, Q4_K_M");
  EXPECT_EQ(document["rows"][2]["row"], "both, contiguous, Q4_K_M");
  const auto kld = [&](int row) {
    return document["rows"][row]["figures"]["capture"]["kld"]["mean"].get<double>();
  };
  EXPECT_GT(kld(1), 0);
  EXPECT_LT(kld(1), kld(0) / 5);
  EXPECT_GT(kld(2), kld(1));
  EXPECT_LT(document["rows"][2]["node_bytes"], document["rows"][0]["node_bytes"]);
  EXPECT_FALSE(std::filesystem::exists(workspace_ / "e.json.work"));
}

TEST_F(ExperimentCommand, ComparesACalibrationWithThePlainForm) {
  WriteAll(workspace_ / "some.txt", ReadFile(workspace_ / "fixtures/texts/manual.md"));
  const std::string calibrated = model_ +
                                 "--strategies contiguous --recipes Q4_K_M --context 64 "
                                 "--calibrate some.txt --calibrate-most-tokens 400 ";
  const ToolRun run = workspace_.Moepack("experiment " + calibrated + "-o e.json");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr(" with feedback"));
  const Json document = Document();
  ASSERT_EQ(document["rows"].size(), 5u);
  const Json &alone = document["rows"][3], &both = document["rows"][4];
  EXPECT_EQ(alone["row"], "calibrated, Q4_K_M");
  EXPECT_TRUE(alone["calibrated"].get<bool>());
  EXPECT_EQ(alone["difference"]["from"], "quantization, Q4_K_M");
  EXPECT_EQ(both["row"], "calibrated, contiguous, Q4_K_M");
  EXPECT_EQ(both["difference"]["from"], "both, contiguous, Q4_K_M");
  EXPECT_EQ(both["node_bytes"], document["rows"][2]["node_bytes"]);
  EXPECT_EQ(document["setup"]["calibrate"][0]["text"], "some.txt");
  EXPECT_EQ(document["setup"]["calibrate_most_tokens"], 400);
  EXPECT_FALSE(std::filesystem::exists(workspace_ / "e.json.work"));
  // It is what quantize makes.
  const ToolRun made = workspace_.Moepack(
      "quantize fixtures/tiny-moe --recipe Q4_K_M --calibrate some.txt --most-tokens 400 "
      "--context 64 -o out.gguf");
  ASSERT_EQ(made.status, 0) << made.err;
  const Json eval = workspace_.Json(
      "eval out.gguf --against fixtures/tiny-moe --text texts.jsonl --context 64 --generate 0 "
      "--json");
  EXPECT_NEAR(alone["figures"]["capture"]["kld"]["mean"], eval["quantization"]["kld"]["mean"],
              1e-9);
  EXPECT_EQ(eval["calibrated"]["method"], "feedback-2");
  EXPECT_THAT(ErrorOf(model_ + "--strategies contiguous --recipes Q4_K_M --calibrate texts.jsonl "
                               "-o f.json",
                      2),
              testing::AllOf(HasSubstr("held-out session"),
                             HasSubstr("hint: --calibrate and --text must name different texts")));
  EXPECT_THAT(ErrorOf(model_ + "--strategies contiguous --recipes Q8_0,BF16 --calibrate some.txt "
                               "--dry-run",
                      2),
              HasSubstr("BF16: --calibrate has no effect"));
}

// A minute: only `make check` runs it.
class ExperimentWithRefits : public ExperimentCommand {};

TEST_F(ExperimentWithRefits, RefitsEverySplitAndComparesItWithTheUnrefittedSplit) {
  // Every eighth session is enough.
  std::istringstream all(ReadFile(workspace_ / "fixtures/texts/calibration.jsonl"));
  std::string some, line;
  for (int i = 0; std::getline(all, line); ++i) some += i % 8 == 0 ? line + "\n" : "";
  WriteAll(workspace_ / "some.jsonl", some);
  const std::string with_refit =
      model_ +
      "--strategies contiguous --recipes Q4_K_M --refit-text some.jsonl --updates 40 "
      "--steps ridge,tune -o e.json";
  const ToolRun run = workspace_.Moepack("experiment " + with_refit);
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("layer 0, group 1: error "));
  const Json document = Document();
  ASSERT_EQ(document["rows"].size(), 5u);
  const Json &plain = document["rows"][0], &refit = document["rows"][3],
             &both = document["rows"][4];
  EXPECT_EQ(refit["row"], "refit, contiguous");
  EXPECT_TRUE(refit["refitted"].get<bool>());
  EXPECT_FALSE(plain["refitted"].get<bool>());
  EXPECT_EQ(refit["node_bytes"], plain["node_bytes"]);
  EXPECT_EQ(refit["difference"]["from"], "split, contiguous");
  EXPECT_LT(refit["difference"]["kld"]["mean"].get<double>(), -0.3);
  EXPECT_EQ(both["row"], "refit, contiguous, Q4_K_M");
  EXPECT_EQ(both["difference"]["from"], "both, contiguous, Q4_K_M");
  EXPECT_NEAR(both["figures"]["any"]["kld"]["mean"].get<double>(),
              refit["figures"]["any"]["kld"]["mean"].get<double>(), 0.1);
  // It is quantized with what the refit saw, as build does.
  const ToolRun built = workspace_.Moepack(
      "build fixtures/tiny-moe --groups 2 --eligible 8 --quantize Q4_K_M --refit --text some.jsonl "
      "--updates 40 --steps ridge,tune --no-verify -o out");
  ASSERT_EQ(built.status, 0) << built.err;
  const Json eval = workspace_.Json(
      "eval out --against fixtures/tiny-moe --text texts.jsonl --generate 0 --json");
  EXPECT_NEAR(both["figures"]["capture"]["kld"]["mean"].get<double>(),
              eval["best"]["total"]["kld"]["mean"].get<double>(), 1e-9);
  EXPECT_EQ(document["setup"]["refit"][0]["text"], "some.jsonl");
  EXPECT_EQ(document["setup"]["refit_steps"], Json({"ridge", "tune"}));
  EXPECT_EQ(document["setup"]["refit_updates"], 40);
  EXPECT_FALSE(std::filesystem::exists(workspace_ / "e.json.work"));
  EXPECT_THAT(ErrorOf(model_ + "--strategies contiguous --refit-text texts.jsonl -o f.json", 2),
              testing::AllOf(HasSubstr("held-out session"),
                             HasSubstr("hint: --refit-text and --text must name different texts")));
}

TEST_F(ExperimentCommand, ResumesToTheSameBytes) {
  ASSERT_EQ(workspace_.Moepack("experiment " + two_).status, 0);
  const std::string whole = ReadFile(workspace_ / "e.json");
  // The state of an interrupted run: some sessions of each row.
  nlohmann::ordered_json part = nlohmann::ordered_json::parse(whole);
  for (auto& row : part["rows"]) row["sessions"].erase(4), row["sessions"].erase(4);
  part["complete"] = false;
  WriteAll(workspace_ / "e.json", part.dump());
  ASSERT_EQ(workspace_.Moepack("experiment " + two_).status, 0);
  EXPECT_EQ(ReadFile(workspace_ / "e.json"), whole);
}

TEST_F(ExperimentCommand, RefusesToResumeWithAnotherRuleOrOtherTexts) {
  ASSERT_EQ(workspace_.Moepack("experiment " + two_).status, 0);
  EXPECT_THAT(ErrorOf(two_ + "--until-error 0.5", 6),
              HasSubstr("e.json: setup.looks: expected 1 as it was begun, found 4"));
  WriteAll(workspace_ / "texts.jsonl", R"({"session": "z", "text": "Quite another text."})");
  EXPECT_THAT(ErrorOf(two_, 6), HasSubstr("e.json: setup.held_out.sessions: expected 6 as it was"));
  EXPECT_EQ(workspace_.Moepack("experiment " + two_ + "--force").status, 0);
  EXPECT_EQ(Document()["rows"][0]["sessions"].size(), 1u);
}

TEST_F(ExperimentCommand, StopsWhereTheRuleSays) {
  std::string texts;
  for (const char* name : {"1", "2", "3", "4"}) {
    std::istringstream lines(kHeldOut);
    for (std::string line; std::getline(lines, line);)
      texts += line.substr(0, 13) + name + line.substr(13) + "\n";
  }
  WriteAll(workspace_ / "texts.jsonl", texts);
  const ToolRun run = workspace_.Moepack("experiment " + two_ + "--until-error 5 --looks 3");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("stopped at look 1 of 3: "));
  const Json looks = Document()["looks"];
  EXPECT_EQ(looks["after_sessions"], Json({8, 16, 24}));
  EXPECT_EQ(looks["made"], 1);
  EXPECT_TRUE(looks["stopped_early"].get<bool>());
  EXPECT_EQ(Document()["rows"][1]["sessions"].size(), 8u);
}

TEST_F(ExperimentCommand, ReadsItsPlanFromAFile) {
  WriteAll(workspace_ / "plan.json",
           R"({"format": "moepack-experiment-plan", "version": 1, "model": "fixtures/tiny-moe",
               "held_out": ["texts.jsonl"], "groups": 4, "eligible": 8, "context": 64,
               "strategies": ["contiguous", "modulo"]})");
  ASSERT_EQ(workspace_.Moepack("experiment plan.json --groups 2 -o e.json").status, 0);
  const Json setup = Document()["setup"];
  EXPECT_EQ(setup["groups"], 2);  // options take precedence
  EXPECT_EQ(setup["context"], 64);
  EXPECT_EQ(Document()["rows"][0]["eligible"], 8);
}

TEST_F(ExperimentCommand, ReadsTheStepsOfARefitFromAFile) {
  WriteAll(workspace_ / "some.txt",
           ReadFile(workspace_ / "fixtures/texts/manual.md").substr(0, 4000));
  const auto write = [&](const std::string& steps) {
    WriteAll(workspace_ / "plan.json",
             R"({"format": "moepack-experiment-plan", "version": 1, "model": "fixtures/tiny-moe",
                 "held_out": ["texts.jsonl"], "eligible": 8, "strategies": ["contiguous"],
                 "refit": ["some.txt"], )" +
                 steps + "}");
  };
  write(R"("refit_steps": ["tune"], "refit_updates": 3)");
  ASSERT_EQ(workspace_.Moepack("experiment plan.json --updates 2 -o e.json").status, 0);
  EXPECT_EQ(Document()["setup"]["refit_steps"], Json({"tune"}));
  EXPECT_EQ(Document()["setup"]["refit_updates"], 2);  // options take precedence
  write(R"("refit_steps": ["bake"])");
  EXPECT_THAT(ErrorOf("plan.json -o f.json", 2),
              HasSubstr("steps: expected ridge, refill, router, tune, found \"bake\""));
  write(R"("refit_updates": 0)");
  EXPECT_THAT(ErrorOf("plan.json -o f.json", 3),
              HasSubstr("plan.json: refit_updates: expected a number from 1 to 1048576, found 0"));
}

TEST_F(ExperimentCommand, ADryRunListsWhatItWouldRun) {
  const std::string before = workspace_.Listing();
  const Json plan = workspace_.Json("experiment " + model_ +
                                    "--strategies contiguous,modulo --recipes Q8_0 -o e.json "
                                    "--dry-run --json");
  EXPECT_EQ(workspace_.Listing(), before);
  ASSERT_EQ(plan["passes"].size(), 2u);
  EXPECT_EQ(plan["passes"][0]["rows"], Json({"split, contiguous", "split, modulo"}));
  EXPECT_EQ(plan["passes"][0]["runs"], 5);  // the whole model and two nodes of each split
  EXPECT_EQ(plan["passes"][1]["runs"], 6);  // and the model before quantization
  EXPECT_EQ(plan["passes"][0]["tokens"].get<int>(), 5 * plan["tokens"].get<int>());
  EXPECT_GT(plan["passes"][0]["seconds"].get<double>(), 0);
  EXPECT_GT(plan["passes"][0]["weight_bytes"].get<double>(), 2e7);
  const ToolRun text =
      workspace_.Moepack("experiment " + model_ + "--strategies contiguous,modulo --dry-run");
  EXPECT_THAT(text.out, HasSubstr("rows:\n  split, contiguous\n  split, modulo\n"));
}

TEST_F(ExperimentCommand, MistakesAreNamed) {
  EXPECT_THAT(ErrorOf(model_, 2), HasSubstr("give a file for the results with --output"));
  EXPECT_THAT(ErrorOf(model_ + "-o e.json", 2),
              HasSubstr("--strategies: \"ranked\" needs --statistics FILE"));
  EXPECT_THAT(
      ErrorOf(model_ + "--strategies nope -o e.json", 2),
      HasSubstr("--strategies: expected one of contiguous, modulo, ranked, session, coactivation, "
                "same, found \"nope\""));
  EXPECT_THAT(ErrorOf(model_ + "--strategies modulo,modulo -o e.json", 2),
              HasSubstr("--strategies: \"modulo\" is given twice"));
  EXPECT_THAT(ErrorOf(two_ + "--statistics s.json --seed 5", 2),
              HasSubstr("--seed has no effect: none of the --strategies has random starts"));
  EXPECT_THAT(
      ErrorOf(two_ + "--statistics s.json --no-pin-super", 2),
      HasSubstr("--no-pin-super has no effect: none of the --strategies decides from statistics"));
  EXPECT_THAT(ErrorOf(two_ + "--recipes Q4_K_M,q4_k_m", 2),
              HasSubstr("--recipes: \"Q4_K_M\" is given twice"));
  EXPECT_THAT(ErrorOf(model_ + "--strategies explicit:x.json -o e.json", 2),
              HasSubstr("needs a file and cannot be compared"));
  EXPECT_THAT(ErrorOf(two_ + "--looks 3", 2),
              HasSubstr("--looks has no effect without --until-error"));
  EXPECT_THAT(ErrorOf(two_ + "--recipes Q9", 2),
              HasSubstr("--recipes: recipe: expected one of Q2_K, "));
  EXPECT_THAT(ErrorOf(two_ + "--imatrix x.gguf", 2),
              HasSubstr("--imatrix has no effect without --recipes"));
  EXPECT_THAT(ErrorOf(two_ + "--calibrate fixtures/texts/manual.md", 2),
              HasSubstr("--calibrate has no effect without --recipes"));
  EXPECT_THAT(ErrorOf(two_ + "--calibrate-most-tokens 20", 2),
              HasSubstr("--calibrate-most-tokens has no effect without --calibrate"));
  EXPECT_THAT(ErrorOf(two_ + "--updates 20", 2),
              HasSubstr("--steps and --updates have no effect without --refit-text"));
  EXPECT_THAT(ErrorOf(two_ + "--until-error 0", 2), HasSubstr("expected a number above 0"));
  EXPECT_THAT(ErrorOf(model_ + "--strategies modulo -o e.txt", 2),
              HasSubstr("--output: expected a name that ends in .json"));
  ASSERT_EQ(workspace_.Moepack("build fixtures/tiny-moe --groups 2 -o out").status, 0);
  EXPECT_THAT(ErrorOf("out --text texts.jsonl --strategies modulo -o e.json", 2),
              HasSubstr("out is a distribution, which is already split; experiment needs a model"));
}

TEST_F(ExperimentCommand, AFileThatIsNotAnExperimentIsRefused) {
  const auto refused = [&](const std::string& text) {
    WriteAll(workspace_ / "plan.json", text);
    return ErrorOf("plan.json -o e.json", 3);
  };
  EXPECT_THAT(refused("{}"), HasSubstr("plan.json: format: expected \"moepack-experiment-plan\""));
  const std::string head = R"({"format": "moepack-experiment-plan", "version": 1)";
  EXPECT_THAT(refused(head + "}"), HasSubstr("plan.json: model: expected a path, found none"));
  EXPECT_THAT(refused(head + R"(, "model": "m", "strategy": 1})"), HasSubstr("found \"strategy\""));
  EXPECT_THAT(refused(head + R"(, "model": "m", "groups": 0})"),
              HasSubstr("plan.json: groups: expected a number from 1 to 65536, found 0"));
  EXPECT_THAT(refused(head + R"(, "model": "m", "recipes": [1]})"),
              HasSubstr("plan.json: recipes: expected a list of texts"));
  EXPECT_THAT(refused(head + R"(, "model": "m", "until_error": 0})"),
              HasSubstr("plan.json: until_error: expected a number above 0, found 0"));
  WriteAll(workspace_ / "plan.json", R"({"format": "moepack-experiment-plan", "version": 2})");
  EXPECT_THAT(ErrorOf("plan.json -o e.json", 4), HasSubstr("plan.json: version: expected 1"));
  WriteAll(workspace_ / "e.json", "{}");
  EXPECT_THAT(ErrorOf(two_, 3), HasSubstr("e.json: format: expected \"moepack-experiment\""));
}

TEST_F(ExperimentCommand, HeldOutTextThatTheStatisticsWereMeasuredOnIsRefused) {
  const ToolRun profiled = workspace_.Moepack(
      "profile fixtures/tiny-moe --text texts.jsonl fixtures/texts/calibration.jsonl -o s.json");
  ASSERT_EQ(profiled.status, 0) << profiled.err;
  EXPECT_THAT(ErrorOf(model_ + "--strategies contiguous,same --statistics s.json --dry-run", 2),
              testing::AllOf(HasSubstr("expected other text than the statistics were measured on, "
                                       "found the same (6 of 6 sessions)"),
                             HasSubstr("--statistics and --text must be of different texts")));
}

}  // namespace
}  // namespace moepack::cli
