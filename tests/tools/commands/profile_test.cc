#include <gmock/gmock.h>

#include "libshard/stats/statistics_file.h"
#include "tests/tools/run_moepack.h"
#include "tests/tools/terminal_moepack.h"

namespace moepack::cli {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;

constexpr const char* kText =
    "The router of a layer picks two of sixteen experts for every token; how often it picks each "
    "of "
    "them depends on the text. Licences, manuals, programs and headers use different experts.\n";

class ProfileCommand : public ::testing::Test {
 protected:
  ProfileCommand() { WriteAll(workspace_ / "text.txt", kText); }
  Statistics Read(const std::string& name) {
    const auto read = ReadStatistics((workspace_ / name).string());
    EXPECT_TRUE(read) << (read ? "" : read.error().message);
    return read ? *read : Statistics{};
  }
  Workspace workspace_;
};

TEST_F(ProfileCommand, PrintsEveryLayerAndWritesBothForms) {
  const ToolRun run =
      workspace_.Moepack("profile fixtures/tiny-moe --text text.txt --bucket prose -o s.json");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, StartsWith("bucket  sessions  prefill tokens  decode tokens\nprose "));
  EXPECT_THAT(run.out, HasSubstr("layer  experts  used  top quarter  largest"));
  EXPECT_THAT(run.out, HasSubstr("\n    2       16 "));
  EXPECT_THAT(run.out, HasSubstr("Super Experts: not looked for; 48 experts in all layers"));
  EXPECT_THAT(run.out, HasSubstr("wrote s.json\n"));
  ASSERT_EQ(
      workspace_.Moepack("profile fixtures/tiny-moe --text text.txt --bucket prose -o s.json.zst")
          .status,
      0);
  EXPECT_EQ(Read("s.json"), Read("s.json.zst"));
}

TEST_F(ProfileCommand, CountsEveryTokenTopKTimesInEveryLayer) {
  ASSERT_EQ(workspace_
                .Moepack("profile fixtures/tiny-moe --text text.txt --generate 5 --context 16 "
                         "-o s.json.zst")
                .status,
            0);
  const Statistics statistics = Read("s.json.zst");
  ASSERT_EQ(statistics.sessions.size(), 1u);
  const SessionTally& session = statistics.sessions[0];
  EXPECT_EQ(session.name, "text.txt");
  EXPECT_EQ(session.executor, "cpu");
  EXPECT_EQ(session.precision, "bf16");
  EXPECT_GT(session.phases[0].sinks, 2u);  // windows
  EXPECT_GT(session.phases[1].tokens, 0u);
  uint64_t all = 0;
  for (const PhaseTally& phase : session.phases) {
    all += phase.tokens;
    for (const LayerTally& layer : phase.layers) {
      uint64_t count = 0;
      double mass = 0;
      for (const ExpertTally& expert : layer) {
        count += expert.count;
        mass += expert.gate_mass;
      }
      EXPECT_EQ(count, 2 * phase.tokens);
      EXPECT_NEAR(mass, static_cast<double>(phase.tokens), 1e-3);  // gates add up to 1
    }
  }
  for (const std::vector<uint64_t>& pairs : statistics.co_selection) {
    uint64_t count = 0;
    for (const uint64_t pair : pairs) count += pair;
    EXPECT_EQ(count, all);
  }
}

TEST_F(ProfileCommand, ADistributionHasTheStatisticsOfItsSource) {
  ASSERT_EQ(workspace_.Moepack("build fixtures/tiny-moe --groups 3 -o out").status, 0);
  ASSERT_EQ(workspace_.Moepack("profile fixtures/tiny-moe --text text.txt -o a.json.zst").status,
            0);
  ASSERT_EQ(workspace_.Moepack("profile out --text text.txt -o b.json.zst").status, 0);
  const Statistics source = Read("a.json.zst"), both = Read("b.json.zst");
  EXPECT_EQ(source.model.router_digest, both.model.router_digest);
  EXPECT_EQ(both.sessions, source.sessions);
}

TEST_F(ProfileCommand, MergingAddsSessionsWithOtherNames) {
  WriteAll(workspace_ / "ids", "1 2 3");
  ASSERT_EQ(workspace_.Moepack("profile fixtures/tiny-moe --text text.txt -o a.json.zst").status,
            0);
  const std::string merge = "profile fixtures/tiny-moe --merge a.json.zst -o b.json.zst ";
  ASSERT_EQ(workspace_.Moepack(merge + "--tokens ids").status, 0);
  EXPECT_EQ(Read("b.json.zst").sessions.size(), 2u);
  const ToolRun run = workspace_.Moepack(merge + "--text text.txt --force");
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err,
              HasSubstr("a.json.zst: session \"text.txt\": expected one that is not there yet"));
  EXPECT_EQ(Read("b.json.zst").sessions.size(), 2u);
}

TEST_F(ProfileCommand, JsonHasTheFiguresOfTheTable) {
  WriteAll(
      workspace_ / "s.jsonl",
      "{\"tokens\": [1, 2, 3, 4], \"bucket\": \"a\"}\n{\"tokens\": [5, 6], \"bucket\": \"b\"}\n");
  const Json json = workspace_.Json("profile fixtures/tiny-moe --text s.jsonl --json");
  EXPECT_EQ(json["layers"].size(), 3u);
  EXPECT_EQ(json["layers"][0]["experts"], 16);
  EXPECT_EQ(json["buckets"][0]["prefill_tokens"], 3);
  EXPECT_EQ(json["buckets"][1]["bucket"], "b");
  EXPECT_EQ(json["stable"], false);
  EXPECT_TRUE(json["super_experts"].is_null());
  EXPECT_TRUE(json["output"].is_null());
}

TEST_F(ProfileCommand, ADryRunRunsButWritesNothing) {
  WriteAll(workspace_ / "ids", "1 2 3");
  const std::string before = workspace_.Listing();
  const ToolRun run =
      workspace_.Moepack("profile fixtures/tiny-moe --tokens ids --generate 7 -o s.json --dry-run");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("1 session, 3 tokens; nothing was run"));
  EXPECT_EQ(workspace_.Listing(), before);
  EXPECT_EQ(workspace_.Json("profile fixtures/tiny-moe --tokens ids --dry-run --json")["tokens"],
            3);
}

TEST_F(ProfileCommand, CountsTokensOnATerminal) {
  const auto report = workspace_.Json("profile fixtures/tiny-moe --text text.txt --dry-run --json");
  const uint64_t tokens = report["tokens"].get<uint64_t>() + 8;
  const ToolRun run =
      OnATerminal(workspace_, "profile fixtures/tiny-moe --text text.txt --generate 8");
  EXPECT_EQ(run.status, 0) << run.out;
  EXPECT_THAT(run.out, ContainsRegex("loading +[0-9]+%  [0-9.]+ k?B of "));
  EXPECT_THAT(run.out, ContainsRegex("profiling +[0-9]+%  [0-9]+ of " + std::to_string(tokens) +
                                     " tokens  [0-9.,]+ tokens/s"));
  EXPECT_THAT(run.out, Not(ContainsRegex("profiling[^\r\n]*B/s")));
}

TEST_F(ProfileCommand, WritesNoEscapeSequencesToADumbTerminal) {
  for (const char* before : {"TERM=dumb", "env -u TERM"}) {
    const ToolRun run =
        OnATerminal(workspace_, "profile fixtures/tiny-moe --text text.txt", before);
    EXPECT_EQ(run.status, 0) << run.out;
    EXPECT_THAT(run.out, HasSubstr("\rprofiling "));
    EXPECT_THAT(run.out, Not(HasSubstr("\033")));
  }
  const ToolRun known =
      OnATerminal(workspace_, "profile fixtures/tiny-moe --text text.txt", "TERM=xterm");
  EXPECT_THAT(known.out, HasSubstr("\033[Kprofiling "));
}

TEST_F(ProfileCommand, FitsProgressIntoANarrowTerminal) {
  const ToolRun run = OnATerminal(workspace_, "profile fixtures/tiny-moe --text text.txt",
                                  "stty cols 30; TERM=xterm");
  EXPECT_EQ(run.status, 0) << run.out;
  EXPECT_THAT(run.out, ContainsRegex("\033.Kprofiling +[0-9]+%"));
  EXPECT_THAT(run.out, Not(HasSubstr("tokens/s")));
}

TEST_F(ProfileCommand, ShowsNoProgressInAPipe) {
  const ToolRun run = workspace_.Moepack("profile fixtures/tiny-moe --text text.txt --strict");
  EXPECT_THAT(run.err, Not(HasSubstr("tokens/s")));
  EXPECT_THAT(run.err, Not(HasSubstr("\033")));
}

// A session of 1024 positions takes 3 MiB.
TEST_F(ProfileCommand, StatisticsDoNotDependOnTheMemory) {
  const std::string options =
      "profile fixtures/tiny-moe --text fixtures/texts/held-out.jsonl --context 1024 -o ";
  for (const char* memory : {"4M", "20M", "200M"}) {
    const std::string name = std::string(memory) + ".json";
    const ToolRun run = workspace_.Moepack(options + name + " --memory " + memory);
    ASSERT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(ReadFile(workspace_ / name), ReadFile(workspace_ / "4M.json")) << memory;
  }
}

TEST_F(ProfileCommand, TooLittleMemoryForOneSessionIsAUsageError) {
  const ToolRun run = workspace_.Moepack(
      "profile fixtures/tiny-moe --text text.txt --context 1024 --memory 2M -o s.json");
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("--memory: expected at least 3"));
  EXPECT_THAT(run.err, HasSubstr(", found 2000000"));
  EXPECT_FALSE(std::filesystem::exists(workspace_ / "s.json"));
}

TEST_F(ProfileCommand, AnOutputThatExistsIsKeptUnlessForced) {
  WriteAll(workspace_ / "s.json", "mine");
  WriteAll(workspace_ / "ids", "1 2 3");
  const std::string command = "profile fixtures/tiny-moe --tokens ids -o s.json";
  const ToolRun run = workspace_.Moepack(command);
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("s.json already exists"));
  EXPECT_EQ(ReadFile(workspace_ / "s.json"), "mine");
  EXPECT_EQ(workspace_.Moepack(command + " --force").status, 0);
  EXPECT_EQ(Read("s.json").sessions.size(), 1u);
}

TEST_F(ProfileCommand, RefusesAnInputAsOutput) {
  EXPECT_EQ(
      workspace_.Moepack("profile fixtures/tiny-moe --text text.txt -o text.txt --force").status,
      2);
  EXPECT_EQ(ReadFile(workspace_ / "text.txt"), kText);
  const ToolRun run =
      workspace_.Moepack("profile fixtures/tiny-moe --text text.txt -o fixtures --force");
  EXPECT_EQ(run.status, 2);
}

TEST_F(ProfileCommand, IdsOnTheCommandLineMayBeLongerThanTheNameOfAFile) {
  std::string ids = "1";
  for (int id = 2; id <= 90; ++id) ids += "," + std::to_string(id);
  const auto run = workspace_.Moepack("profile fixtures/tiny-moe --tokens " + ids + " -o s.json");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(std::filesystem::exists(workspace_.path() / "s.json"));
}

TEST_F(ProfileCommand, ReplacesNeitherTextsNorMergedStatistics) {
  WriteAll(workspace_ / "ids.json", "[1, 2, 3]");
  const ToolRun tokens =
      workspace_.Moepack("profile fixtures/tiny-moe --tokens ids.json -o ./ids.json --force");
  EXPECT_EQ(tokens.status, 2);
  EXPECT_THAT(tokens.err, HasSubstr("./ids.json is also an input"));
  ASSERT_EQ(workspace_.Moepack("profile fixtures/tiny-moe --tokens ids.json -o a.json.zst").status,
            0);
  const std::string before = ReadFile(workspace_ / "a.json.zst");
  const ToolRun merged = workspace_.Moepack(
      "profile fixtures/tiny-moe --text text.txt --merge a.json.zst -o a.json.zst --force");
  EXPECT_EQ(merged.status, 2);
  EXPECT_THAT(merged.err, HasSubstr("a.json.zst is also an input"));
  EXPECT_EQ(ReadFile(workspace_ / "a.json.zst"), before);
}

TEST_F(ProfileCommand, TheOutputNameDecidesTheForm) {
  const std::string command = "profile fixtures/tiny-moe --text text.txt -o ";
  const ToolRun other = workspace_.Moepack(command + "stats");
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, HasSubstr("-o: expected a name that ends in .json or .json.zst, or -"));
  EXPECT_THAT(other.err, HasSubstr("found \"stats\""));
  const ToolRun both = workspace_.Moepack(command + "- --json");
  EXPECT_EQ(both.status, 2);
  EXPECT_THAT(both.err, HasSubstr("-o - and --json cannot be used together"));
  const ToolRun standard = workspace_.Moepack(command + "-");
  EXPECT_EQ(standard.status, 0);
  EXPECT_EQ(Json::parse(standard.out)["format"], "moepack-statistics");
  EXPECT_THAT(standard.err, HasSubstr("top quarter"));
}

TEST_F(ProfileCommand, ADryRunRefusesTheSameOutputsAsARun) {
  WriteAll(workspace_ / "s.json", "mine");
  const std::string command = "profile fixtures/tiny-moe --text text.txt --dry-run -o ";
  EXPECT_THAT(workspace_.Moepack(command + "s.json").err, HasSubstr("s.json already exists"));
  EXPECT_EQ(workspace_.Moepack(command + "s.json").status, 2);
  const ToolRun missing = workspace_.Moepack(command + "nowhere/s.json");
  EXPECT_EQ(missing.status, 2);
  EXPECT_THAT(missing.err, HasSubstr("nowhere/s.json lies in a directory that does not exist"));
}

TEST_F(ProfileCommand, StatisticsOfAnotherModelAreNotMerged) {
  Statistics other;
  other.model.router_digest = std::string(32, '0');
  other.model.layers = {{0, 16, 2}, {1, 16, 2}, {2, 16, 2}};
  other.co_selection.assign(3, std::vector<uint64_t>(120));
  ASSERT_TRUE(WriteStatistics((workspace_ / "other.json.zst").string(), other));
  WriteAll(workspace_ / "ids", "1 2 3");
  const ToolRun run = workspace_.Moepack(
      "profile fixtures/tiny-moe --tokens ids --merge other.json.zst -o s.json.zst");
  EXPECT_EQ(run.status, 6);
  EXPECT_THAT(run.err, HasSubstr("other.json.zst: router digest: expected"));
  EXPECT_FALSE(std::filesystem::exists(workspace_ / "s.json.zst"));
}

TEST_F(ProfileCommand, FilesOfOtherToolsAreNotMerged) {
  WriteAll(workspace_ / "ids", "1 2 3");
  const ToolRun run = workspace_.Moepack(
      "profile fixtures/tiny-moe --tokens ids --merge fixtures/statistics/imatrix.gguf -o "
      "s.json.zst");
  EXPECT_EQ(run.status, 4);
  EXPECT_THAT(run.err, HasSubstr("error: fixtures/statistics/imatrix.gguf: expected statistics of "
                                 "moepack profile, found imatrix\n"));
  EXPECT_FALSE(std::filesystem::exists(workspace_ / "s.json.zst"));
}

TEST_F(ProfileCommand, RequiresTexts) {
  const ToolRun run = workspace_.Moepack("profile fixtures/tiny-moe");
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("--text or --tokens is required"));
}

}  // namespace
}  // namespace moepack::cli
