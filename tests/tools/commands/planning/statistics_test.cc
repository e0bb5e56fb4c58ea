#include <gmock/gmock.h>

#include "libshard/stats/statistics_file.h"
#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class StatisticsCommand : public ::testing::Test {
 protected:
  void ExpectRefused(const std::string& arguments, int status, const std::string& message) {
    const std::string before = workspace_.Listing();
    const ToolRun run = workspace_.Moepack("statistics " + arguments);
    EXPECT_EQ(run.status, status) << arguments << "\n" << run.err;
    EXPECT_THAT(run.err, HasSubstr(message)) << arguments;
    EXPECT_EQ(run.out, "") << arguments;
    EXPECT_EQ(workspace_.Listing(), before) << arguments;
  }
  Workspace workspace_;
};

constexpr const char* kFiles = "fixtures/statistics/";

TEST_F(StatisticsCommand, ShowPrintsSessionsAndLayers) {
  const ToolRun run = workspace_.Moepack(
      "statistics show fixtures/statistics/profile.json --model fixtures/tiny-moe");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, StartsWith("format   moepack-statistics\n"
                                  "scores   reap (sum of gate x norm of the output)\n"));
  EXPECT_THAT(run.out, HasSubstr("pairs    known: how often two experts were chosen together\n"));
  EXPECT_THAT(run.out, HasSubstr("bucket  sessions  tokens\n"
                                 "prose          2     128\n"
                                 "code           2     128\n"));
  EXPECT_THAT(run.out, HasSubstr("layer  experts  top-k  used  top quarter  largest\n"));
  EXPECT_THAT(run.out, HasSubstr("\n    2       16      2    16 "));
  EXPECT_EQ(run.err, "");
}

TEST_F(StatisticsCommand, ShowListsDoubtsInJson) {
  const auto json = workspace_.Json(
      "statistics show fixtures/statistics/mesh-analyzer.csv --model fixtures/tiny-moe --json");
  EXPECT_EQ(json["format"], "mesh-ranking");
  EXPECT_EQ(json["basis"], "gate");
  EXPECT_EQ(json["layer_agnostic"], true);
  EXPECT_EQ(json["layers"].size(), 3u);
  EXPECT_EQ(json["warnings"].size(), 2u);
}

TEST_F(StatisticsCommand, ShowsEveryFormat) {
  for (const char* name :
       {"imatrix.gguf", "hot-cache-runtime.json", "mesh-cache.csv", "reap.json", "reap.safetensors",
        "sglang-steps.json", "expert-list.jsonl", "scores.json"}) {
    const ToolRun run = workspace_.Moepack(std::string("statistics show fixtures/statistics/") +
                                           name + " --model fixtures/tiny-moe");
    EXPECT_EQ(run.status, 0) << name << run.err;
    EXPECT_THAT(run.out, HasSubstr("\n    2       16      2 ")) << name;
  }
}

TEST_F(StatisticsCommand, MergesMoepackStatisticsWithAllTheirData) {
  auto first = ReadStatistics((workspace_ / "fixtures/statistics/profile.json").string());
  ASSERT_TRUE(first);
  Statistics second = *first;
  for (SessionTally& session : second.sessions) session.name += " 2";
  ASSERT_TRUE(WriteStatistics((workspace_ / "second.json.zst").string(), second));
  const ToolRun run = workspace_.Moepack(
      "statistics merge fixtures/statistics/profile.json second.json.zst -o both.json.zst");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, StartsWith("wrote both.json.zst ("));
  const auto both = ReadStatistics((workspace_ / "both.json.zst").string());
  ASSERT_TRUE(both);
  ASSERT_TRUE(MergeStatistics("second", second, *first));
  EXPECT_TRUE(*both == *first);
}

TEST_F(StatisticsCommand, MergesFilesOfSeveralToolsAsScores) {
  ASSERT_EQ(workspace_
                .Moepack("statistics merge fixtures/statistics/profile.json "
                         "fixtures/statistics/imatrix.gguf --score count -o both.json")
                .status,
            0);
  const auto json = workspace_.Json("statistics show both.json --json");
  EXPECT_EQ(json["format"], "moepack-scores");
  EXPECT_EQ(json["basis"], "count");
  EXPECT_EQ(json["sessions"].size(), 5u);
  ExpectRefused("merge fixtures/statistics/profile.json fixtures/statistics/imatrix.gguf -o b.json",
                6, "imatrix.gguf: scores: expected reap, found count");
}

TEST_F(StatisticsCommand, ConvertsCountsToEveryFormatAndBack) {
  for (const char* format : {"hot-cache", "sglang", "ktransformers"}) {
    const std::string out = std::string(format) + ".json";
    const ToolRun run = workspace_.Moepack(
        std::string("statistics convert fixtures/statistics/profile.json --to ") + format + " -o " +
        out);
    ASSERT_EQ(run.status, 0) << run.err;
    ASSERT_EQ(workspace_
                  .Moepack("statistics convert " + out +
                           " --to vllm-ascend -o list.jsonl "
                           "--force --model fixtures/tiny-moe")
                  .status,
              0);
    EXPECT_EQ(ReadFile(workspace_ / "list.jsonl"),
              ReadFile(workspace_ / "fixtures/statistics/expert-list.jsonl"))
        << format;
  }
}

// A trace has gates as well, but formats of counts get its counts.
TEST_F(StatisticsCommand, UsesTheCountsOfATrace) {
  const std::string command = "statistics convert fixtures/statistics/";
  ASSERT_EQ(workspace_.Moepack(command + "route-trace.csv --to sglang -o t.json").status, 0);
  ASSERT_EQ(workspace_.Moepack(command + "profile.json --to sglang -o p.json").status, 0);
  EXPECT_EQ(ReadFile(workspace_ / "t.json"), ReadFile(workspace_ / "p.json"));
}

TEST_F(StatisticsCommand, AScoreThatAFileLacksIsAUsageError) {
  for (const char* file : {"imatrix.gguf", "sglang.json", "hot-cache-initial.json"}) {
    ExpectRefused(
        std::string("show ") + kFiles + file + " --score reap", 2,
        std::string("error: ") + kFiles + file + ": scores: expected reap, found only count\n");
  }
}

TEST_F(StatisticsCommand, ConvertsStatisticsWithoutLoss) {
  ASSERT_EQ(workspace_
                .Moepack("statistics convert fixtures/statistics/profile.json --to "
                         "moepack-statistics -o s.json.zst")
                .status,
            0);
  EXPECT_EQ(*ReadStatistics((workspace_ / "s.json.zst").string()),
            *ReadStatistics((workspace_ / "fixtures/statistics/profile.json").string()));
  ASSERT_EQ(
      workspace_.Moepack("statistics convert s.json.zst --to moepack-statistics -o s.json").status,
      0);
  ASSERT_EQ(workspace_
                .Moepack("statistics convert fixtures/statistics/profile.json --to "
                         "moepack-statistics -o plain.json")
                .status,
            0);
  EXPECT_EQ(ReadFile(workspace_ / "s.json"), ReadFile(workspace_ / "plain.json"));
  EXPECT_EQ(workspace_.Moepack("replay --slots 2 s.json.zst").out,
            workspace_.Moepack("replay --slots 2 plain.json").out);
  ExpectRefused("convert fixtures/statistics/imatrix.gguf --to moepack-statistics -o new.json", 4,
                "works only with statistics of `moepack profile`");
}

TEST_F(StatisticsCommand, ABudgetMarksTheExpertsThatFit) {
  // An expert of tiny-moe has 393,216 bytes.
  const std::string command =
      "statistics convert fixtures/statistics/imatrix.gguf --to hot-cache --model "
      "fixtures/tiny-moe -o - --budget ";
  const auto flat = workspace_.Json(command + "3MB");
  for (const auto& layer : flat["layers"]) EXPECT_EQ(layer["hot_experts"].size(), 2u);
  const auto mass = workspace_.Json(command + "3MB --weighting mass");
  size_t hot = 0;
  for (const auto& layer : mass["layers"]) hot += layer["hot_experts"].size();
  EXPECT_EQ(hot, 7u);
}

TEST_F(StatisticsCommand, APlanBecomesAPlacement) {
  ASSERT_EQ(workspace_.Moepack("plan fixtures/tiny-moe --groups 2 -o plan.json").status, 0);
  const auto json = workspace_.Json(
      "statistics convert fixtures/statistics/profile.json --to sglang-placement --plan plan.json "
      "--model fixtures/tiny-moe -o -");
  ASSERT_EQ(json["physical_to_logical_map"].size(), 3u);
  for (size_t e = 0; e < 16; ++e) EXPECT_EQ(json["physical_to_logical_map"][1][e], e);
}

TEST_F(StatisticsCommand, StatisticsOfAnotherModelAreRefused) {
  WriteAll(workspace_ / "other.json", R"({"logical_count": [[1, 2], [3, 4], [5, 6]]})");
  ExpectRefused("show other.json --model fixtures/tiny-moe", 6,
                "other.json: layer 0: experts: expected 16, found 2");
  WriteAll(workspace_ / "four.json", R"({"logical_count": [[1, 2], [3, 4], [5, 6], [7, 8]]})");
  ExpectRefused("show four.json --model fixtures/tiny-moe", 6,
                "four.json: layer 3: expected no such layer");
}

TEST_F(StatisticsCommand, OptionsOfOtherActionsAreRefused) {
  const std::string file = std::string(kFiles) + "profile.json ";
  ExpectRefused("show " + file + "-o x", 2, "--output has no effect: show writes no file");
  ExpectRefused("show " + file + "--force", 2, "--force has no effect: show writes no file");
  ExpectRefused("show " + file + "--to sglang", 2, "--to has no effect: show converts nothing");
  ExpectRefused("merge " + file, 2, "merge needs -o FILE");
  ExpectRefused("merge " + file + "-o x --budget 1M", 2, "--budget has no effect");
  ExpectRefused("merge " + file + "-o x --plan p", 2, "--plan has no effect");
  ExpectRefused("merge " + file + "-o x --weighting flat", 2, "--weighting has no effect");
  ExpectRefused("convert " + file + "-o x", 2, "convert needs --to FORMAT");
  ExpectRefused("convert " + file + "--to sglang -o x --budget 1M", 2,
                "--budget has no effect: the output is sglang");
  ExpectRefused("convert " + file + "--to hot-cache -o x --weighting mass", 2,
                "--weighting has no effect: it says how a --budget is spent");
  ExpectRefused("convert " + file + "--to hot-cache -o x --budget 1M", 2,
                "--budget needs --model SRC");
  ExpectRefused("convert " + file + "--to hot-cache -o x --plan p", 2,
                "--plan has no effect: the output is hot-cache");
  ExpectRefused("convert " + file + "--to sglang-placement -o x", 2,
                "--to sglang-placement needs --plan FILE");
  ExpectRefused("convert " + file + "--to sglang-placement --plan p -o x", 2,
                "--plan needs --model SRC");
  ExpectRefused("convert " + file + "--to moepack-statistics --score gate -o x.json", 2,
                "--score has no effect: statistics keep all scores");
  ExpectRefused("convert " + file +
                    "--to sglang-placement --plan p --model fixtures/tiny-moe --score count -o x",
                2, "--score has no effect: the output is sglang-placement, which has no scores");
  ExpectRefused("show " + file + "--family f.json", 2, "--family needs --model");
  ExpectRefused("print " + file, 2, "expected one of show, merge, convert");
}

TEST_F(StatisticsCommand, NeverReplacesInputsAndReplacesOutputsOnlyOnRequest) {
  WriteAll(workspace_ / "mine", "mine");
  const std::string convert = "convert fixtures/statistics/profile.json --to sglang ";
  ExpectRefused(convert + "-o mine", 2, "mine already exists");
  ExpectRefused(convert + "-o fixtures/statistics/profile.json --force", 2, "is also an input");
  ExpectRefused(convert + "-o fixtures/tiny-moe/config.json --model fixtures/tiny-moe --force", 2,
                "choose another output");
  ExpectRefused(convert + "-o fixtures", 2, "fixtures is a directory");
  ExpectRefused(convert + "-o none/x", 2, "none/x lies in a directory that does not exist");
  ExpectRefused(convert + "-o - --json", 2, "-o - and --json cannot be used together");
  ExpectRefused("merge fixtures/statistics/profile.json -o x.txt", 2,
                "-o: expected a name that ends in .json or .json.zst, or -, found \"x.txt\"");
  for (const std::string action : {"merge", "convert --to sglang"})
    ExpectRefused(action + " fixtures/statistics/profile.json --score count -o x.json.zst", 2,
                  "-o: expected a name that does not end in .zst, because the output is text");
  EXPECT_EQ(ReadFile(workspace_ / "mine"), "mine");
  EXPECT_EQ(workspace_.Moepack("statistics " + convert + "-o mine --force").status, 0);
  EXPECT_THAT(ReadFile(workspace_ / "mine"), StartsWith("{"));
}

TEST_F(StatisticsCommand, JsonListsWhatWasWritten) {
  const auto json = workspace_.Json(
      "statistics convert fixtures/statistics/expert-list.jsonl --to sglang -o x.json --model "
      "fixtures/tiny-moe --json");
  EXPECT_EQ(json["format"], "sglang");
  EXPECT_EQ(json["basis"], "count");
  EXPECT_EQ(json["warnings"].size(), 1u);
  EXPECT_EQ(json["output"]["file"], "x.json");
  EXPECT_EQ(json["output"]["bytes"], ReadFile(workspace_ / "x.json").size());
}

}  // namespace
}  // namespace moepack::cli
