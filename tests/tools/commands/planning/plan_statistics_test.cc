// Plans from statistics, from profile to distribution.
#include <gmock/gmock.h>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

constexpr const char* kSessionPlan =
    " fixtures/tiny-moe --groups 3 --statistics s.json --partition session --eligible 8 ";

// Twenty sessions of two kinds: the project's documents and parts of a config.
class PlanFromStatistics : public testing::Test {
 protected:
  PlanFromStatistics() {
    const std::string prose = ReadFile(workspace_ / "docs/architecture.md");
    const std::string code = ReadFile(workspace_ / "fixtures/tiny-moe/tokenizer.json");
    std::string lines;
    for (size_t i = 0; i < 10; ++i) {
      lines += Line("prose", i, prose.substr(i * 1000, 800));
      lines += Line("json", i, code.substr(i * 1000, 800));
    }
    WriteAll(workspace_ / "texts.jsonl", lines);
    const ToolRun run =
        workspace_.Moepack("profile fixtures/tiny-moe --text texts.jsonl -o s.json");
    EXPECT_EQ(run.status, 0) << run.err;
  }
  static std::string Line(const std::string& bucket, size_t number, const std::string& text) {
    return Json{{"text", text}, {"session", bucket + std::to_string(number)}, {"bucket", bucket}}
               .dump(-1, ' ', true, Json::error_handler_t::replace) +
           "\n";
  }
  void ExpectRefused(const std::string& arguments, const std::string& message, int status = 2) {
    const ToolRun run = workspace_.Moepack(arguments);
    EXPECT_EQ(run.status, status) << arguments << "\n" << run.err;
    EXPECT_THAT(run.err, HasSubstr(message)) << arguments;
    EXPECT_EQ(run.out, "") << arguments;
  }

  Workspace workspace_;
};

TEST_F(PlanFromStatistics, ShowsTheExpectedCaptureBeforeWritingAnything) {
  const ToolRun run = workspace_.Moepack(std::string("plan") + kSessionPlan + "-o plan.json");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("3 groups, session, uniform\n"));
  EXPECT_THAT(run.out, HasSubstr("expected from moepack-statistics, 16 sessions (gate x norm of "
                                 "output), measured on 4 held out\n"));
  EXPECT_THAT(run.out, HasSubstr("if each session had its own"));
  const Json plan = Json::parse(ReadFile(workspace_ / "plan.json"));
  const Json& expected = plan["expectation"]["expected"];
  EXPECT_EQ(expected["sessions"], 4);
  EXPECT_GT(expected["mean"].get<double>(), expected["contiguous"]["mean"].get<double>());
  EXPECT_LE(expected["mean"].get<double>(), expected["oracle"]["mean"].get<double>());
  EXPECT_EQ(plan["expectation"]["calibration"]["digest"].get<std::string>().size(), 32u);
}

TEST_F(PlanFromStatistics, ADistributionKeepsTheExpectationOfItsPlan) {
  ASSERT_EQ(workspace_.Moepack(std::string("plan") + kSessionPlan + "-o plan.json").status, 0);
  ASSERT_EQ(workspace_.Moepack("shard-experts fixtures/tiny-moe --plan plan.json -o a").status, 0);
  const ToolRun built = workspace_.Moepack(std::string("build") + kSessionPlan + "-o b");
  ASSERT_EQ(built.status, 0) << built.err;
  const Json plan = Json::parse(ReadFile(workspace_ / "plan.json"));
  for (const char* name : {"a", "b"}) {
    const Json document =
        Json::parse(ReadFile(workspace_ / (std::string(name) + "/distribution.json")));
    EXPECT_EQ(document["partition"]["scheme"], "session");
    EXPECT_EQ(document["calibration"], plan["expectation"]["calibration"]) << name;
    EXPECT_EQ(document["quality"]["expected"], plan["expectation"]["expected"]) << name;
    EXPECT_THAT(ReadFile(workspace_ / (std::string(name) + "/README.md")),
                HasSubstr("| expected of statistics | |"));
  }
  const Json command = Json::parse(ReadFile(workspace_ / "b/distribution.json"))["tool"]["command"];
  EXPECT_THAT(command.dump(), HasSubstr(R"("--statistics","s.json","--eligible","8")"));
}

// Sessions are what statistics are for; a partition that is named is taken without a word.
TEST_F(PlanFromStatistics, ChooseAPartitionThatIsNotNamed) {
  const std::string plan = "plan fixtures/tiny-moe --statistics s.json --dry-run ";
  const ToolRun chosen = workspace_.Moepack(plan + "--groups 3");
  ASSERT_EQ(chosen.status, 0) << chosen.err;
  EXPECT_THAT(chosen.out, HasSubstr("3 groups, session, uniform\n"));
  EXPECT_THAT(chosen.err, HasSubstr("partition: session, because the statistics have 16 sessions "
                                    "to plan from\n"));
  const ToolRun named = workspace_.Moepack(plan + "--groups 3 --partition contiguous");
  EXPECT_THAT(named.out, HasSubstr("3 groups, contiguous, uniform\n"));
  EXPECT_THAT(named.err, Not(HasSubstr("partition: ")));
  const ToolRun few = workspace_.Moepack(plan + "--groups 8 --eligible 4 --held-out 0.7");
  EXPECT_THAT(few.out, HasSubstr("8 groups, same, uniform\n")) << few.err;
  ASSERT_EQ(
      workspace_.Moepack("build fixtures/tiny-moe --groups 3 --statistics s.json -o chosen").status,
      0);
  const Json built = Json::parse(ReadFile(workspace_ / "chosen/distribution.json"));
  EXPECT_EQ(built["partition"]["scheme"], "session");
  EXPECT_THAT(built["tool"]["command"].dump(), HasSubstr(R"("--partition","session")"));
}

TEST_F(PlanFromStatistics, EveryPartitionMayBePlannedAndMeasured) {
  for (const std::string partition : {"ranked", "coactivation", "same", "contiguous"}) {
    const Json json = workspace_.Json(
        "plan fixtures/tiny-moe --groups 3 --statistics s.json "
        "--eligible 8 --dry-run --json --partition " +
        partition);
    EXPECT_EQ(json["scheme"], partition);
    EXPECT_EQ(json["nodes"][2]["eligible"]["most"], 8) << partition;
    EXPECT_GT(json["expectation"]["expected"]["mean"].get<double>(), 0.3) << partition;
  }
}

TEST_F(PlanFromStatistics, ComparesSeveralGroupCounts) {
  const std::string before = workspace_.Listing();
  const ToolRun run = workspace_.Moepack(
      "plan fixtures/tiny-moe --groups 2,3 --statistics s.json --partition session --eligible 8");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("groups  eligible  largest node  capture"));
  EXPECT_THAT(run.out, HasSubstr("\n     2         8  "));
  EXPECT_THAT(run.out, HasSubstr("\n     3         8  "));
  EXPECT_EQ(workspace_.Listing(), before);
  const Json json = workspace_.Json("plan fixtures/tiny-moe --groups 2,3 --json");
  EXPECT_EQ(json["plans"].size(), 2u);
  EXPECT_FALSE(json["plans"][0].contains("expectation"));
  ExpectRefused("plan fixtures/tiny-moe --groups 2,3 -o p.json",
                "-o and several numbers of groups cannot be used together");
  ExpectRefused("plan fixtures/tiny-moe --groups 2,3,02", "error: --groups: 2 is given twice\n");
}

// The statistics have 16 sessions to plan from, too few for 17 groups.
TEST_F(PlanFromStatistics, ASweepChoosesItsPartitionForTheGroupsThatItKeeps) {
  const std::string sweep =
      "plan fixtures/tiny-moe --sweep --recipes Q8_0 --node 6MB --context 256 --reserve 100k "
      "--statistics s.json --groups ";
  const ToolRun kept = workspace_.Moepack(sweep + "2,3");
  const ToolRun left_out = workspace_.Moepack(sweep + "2,3,17");
  EXPECT_EQ(left_out.status, 0) << left_out.err;
  EXPECT_EQ(left_out.out, kept.out);
  EXPECT_THAT(left_out.err, HasSubstr("partition: session, "));
  EXPECT_THAT(left_out.err, HasSubstr("17 groups: left out: "));
}

TEST_F(PlanFromStatistics, RefusesImpossiblePlans) {
  ExpectRefused("plan fixtures/tiny-moe --groups 3 --partition session",
                "--partition session needs --statistics FILE");
  ExpectRefused(
      "plan fixtures/tiny-moe --groups 16 --eligible 4 --statistics s.json --partition session "
      "--held-out 0.5",
      "statistics: sessions to plan from: expected at least 16, one per group, found 10");
  ExpectRefused(
      "plan fixtures/tiny-moe --groups 3 --statistics s.json --partition same "
      "--eligible 1",
      "eligible experts: expected at least 2 (per token), found 1");
  const ToolRun beyond = workspace_.Moepack("plan fixtures/tiny-moe --groups 3 --eligible 17");
  EXPECT_EQ(beyond.status, 2);
  EXPECT_THAT(beyond.err, HasSubstr("expected at most 16, all that the layer has, found 17\n"
                                    "hint: lower --eligible\n"));
  ExpectRefused("plan fixtures/tiny-moe --groups 3 --eligible 4",
                "expected at most 4 as "
                "--eligible says, found 6");
  ExpectRefused("plan fixtures/tiny-moe --groups 3 --statistics s.json --force -o s.json",
                "s.json is also an input");
}

TEST_F(PlanFromStatistics, WarnsOfNodesThatNoSessionWouldChoose) {
  const ToolRun run = workspace_.Moepack(
      "plan fixtures/tiny-moe --node 12MB --node 6MBx2 --recipe Q8_0 --context 256 --reserve 0 "
      "--statistics s.json --partition session --dry-run");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr(" held-out sessions would go to nodes 1-2, because another node "
                                 "holds more of what each of them uses; use fewer nodes, or nodes "
                                 "of one size\n"));
}

// With 16 of 16 pinned, there is room for everything that a token uses.
TEST_F(PlanFromStatistics, PinnedExpertsAlsoServeTokens) {
  WriteAll(workspace_ / "pins.json", R"({"layers": {"*": "0-15"}})");
  const std::string plan =
      "plan fixtures/tiny-moe --groups 2 --statistics s.json --partition session --dry-run "
      "--pin pins.json";
  ExpectRefused(plan, "eligible experts: expected at least 16 (16 pinned), found 8");
  EXPECT_EQ(workspace_.Moepack(plan + " --eligible 16").status, 0);
}

// The routers of another checkpoint with the same shapes.
TEST_F(PlanFromStatistics, StatisticsOfAnotherModelAreRefusedByTheirRouters) {
  std::string text = ReadFile(workspace_ / "s.json");
  const size_t at = text.find("\"router_digest\": \"") + 18;
  const std::string digest = text.substr(at, 32);
  text.replace(at, 32, std::string(32, '0'));
  WriteAll(workspace_ / "other.json", text);
  ExpectRefused("plan fixtures/tiny-moe --groups 2 --statistics other.json",
                "other.json: router digest: expected " + digest + ", found " + std::string(32, '0'),
                6);
}

// Every form of a model gives the same digest, whatever its files are.
TEST_F(PlanFromStatistics, ComparesTheRoutersOfAGgufToo) {
  ASSERT_EQ(workspace_.Moepack("quantize fixtures/tiny-moe --recipe Q8_0 -o q8.gguf").status, 0);
  const ToolRun good = workspace_.Moepack("plan q8.gguf --groups 2 --statistics s.json --dry-run");
  EXPECT_EQ(good.status, 0) << good.err;
  EXPECT_THAT(good.err, Not(HasSubstr("was not checked")));
  const std::string text = ReadFile(workspace_ / "s.json");
  const size_t at = text.find("\"router_digest\": \"") + 18;
  const std::string digest = text.substr(at, 32), zeros(32, '0');
  std::string other = text;
  other.replace(at, 32, zeros);
  WriteAll(workspace_ / "other.json", other);
  const std::string message =
      "error: other.json: router digest: expected " + digest + ", found " + zeros + "\n";
  ASSERT_EQ(workspace_.Moepack("build fixtures/tiny-moe --groups 3 -o st --no-verify").status, 0);
  ASSERT_EQ(workspace_.Moepack("build fixtures/tiny-moe --groups 3 --recipe Q8_0 -o gg --no-verify")
                .status,
            0);
  for (const std::string command :
       {"plan q8.gguf --groups 2 --statistics other.json -o p.json",
        "build q8.gguf --groups 2 --statistics other.json -o out",
        "overlay st --statistics other.json --size 1 -o out",
        "overlay gg --statistics other.json --size 1 -o out",
        "statistics show other.json --model q8.gguf",
        "statistics convert other.json --to moepack-statistics --model q8.gguf -o o.json",
        "statistics convert other.json --to sglang --model fixtures/tiny-moe -o o.json",
        "replay other.json --model q8.gguf", "replay other.json --model fixtures/tiny-moe",
        "replay other.json --model st", "replay other.json --model gg",
        "replay fixtures/statistics/route-trace.csv --model st --policy static --statistics "
        "other.json"}) {
    ExpectRefused(command, message, 6);
  }
}

TEST_F(PlanFromStatistics, WarnsIfRoutersCannotBeChecked) {
  const std::string command = " --groups 2 --statistics s.json --dry-run";
  const ToolRun config = workspace_.Moepack("plan fixtures/tiny-moe/config.json" + command);
  EXPECT_EQ(config.status, 0) << config.err;
  EXPECT_THAT(config.err,
              HasSubstr("warning: s.json: whether it was measured on fixtures/tiny-moe/config.json "
                        "was not checked, because its routers cannot be read here\n"));
  EXPECT_THAT(workspace_.Moepack("plan fixtures/tiny-moe" + command).err,
              Not(HasSubstr("was not checked")));
}

TEST_F(PlanFromStatistics, PlansWithTheCountsOfATrace) {
  const std::string command =
      "plan fixtures/tiny-moe --groups 2 --statistics fixtures/statistics/route-trace.csv "
      "--partition ranked --dry-run --score ";
  const ToolRun counts = workspace_.Moepack(command + "count");
  EXPECT_EQ(counts.status, 0) << counts.err;
  ExpectRefused(command + "reap",
                "error: fixtures/statistics/route-trace.csv: scores: expected reap, found only "
                "count and gate\n");
}

}  // namespace
}  // namespace moepack::cli
