#include "tools/options/statistics_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "fixtures/temp_dir.h"
#include "libshard/stats/statistics_file.h"
#include "tests/libshard/model/model_for_test.h"
#include "tests/libshard/stats/sample.h"
#include "tools/options/options.h"

namespace moepack::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string ProblemOf(PlanOptions& options, std::vector<std::string> words) {
  CLI::App app;
  AddPlanOptions(app, options);
  std::reverse(words.begin(), words.end());
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
  return "";
}

TEST(StatisticsOptions, AreReadAndRecordedWithoutPaths) {
  PlanOptions options;
  ASSERT_EQ(ProblemOf(options,
                      {"--groups", "3", "--partition", "session", "--statistics", "/home/me/a.json",
                       "/b.json.zst", "--score", "gate", "--eligible", "12", "--pin",
                       "/tmp/pins.json", "--no-pin-super", "--held-out", "0.25", "--seed", "7"}),
            "");
  EXPECT_EQ(options.score, ScoreBasis::kGateMass);
  EXPECT_EQ(options.eligible, 12u);
  EXPECT_EQ(options.held_out, 250u);
  EXPECT_FALSE(options.pin_super);
  EXPECT_THAT(RecordStatisticsOptions(options),
              ElementsAre("--statistics", "a.json", "--statistics", "b.json.zst", "--score", "gate",
                          "--eligible", "12", "--pin", "pins.json", "--no-pin-super", "--held-out",
                          "0.25", "--seed", "7"));
}

TEST(StatisticsOptions, DefaultsAreNotRecorded) {
  EXPECT_THAT(RecordStatisticsOptions({}), IsEmpty());
}

TEST(StatisticsOptions, ErrorsSayWhatWasExpected) {
  PlanOptions options;
  EXPECT_THAT(ProblemOf(options, {"--statistics", "a", "--score", "mass"}),
              HasSubstr("expected one of count, gate, reap, found \"mass\""));
  for (const char* share : {"1", "-0.1", "x", "0.2x", "nan"})
    EXPECT_THAT(ProblemOf(options, {"--statistics", "a", "--held-out", share}),
                HasSubstr("expected a share from 0 to 0.9, found"))
        << share;
  EXPECT_THAT(ProblemOf(options, {"--eligible", "0"}), HasSubstr("expected a number from 1"));
}

TEST(StatisticsOptions, OptionsAboutStatisticsNeedStatistics) {
  for (const char* option : {"--score", "--pin", "--held-out", "--seed"}) {
    PlanOptions options;
    const std::string value = std::string(option) == "--score" ? "gate" : "0";
    EXPECT_EQ(ProblemOf(options, {option, value}), std::string(option) + " requires --statistics");
  }
}

TEST(StatisticsOptions, ContradictionsAreRefused) {
  PlanOptions options{.groups = 2, .partition = "session"};
  EXPECT_EQ(CheckPlanOptions(options).error().message,
            "--partition session needs --statistics FILE");
  options.statistics_files = {"s.json"};
  EXPECT_TRUE(CheckPlanOptions(options));
  options.partition = "modulo";
  options.pin_file = "pins.json";
  EXPECT_EQ(CheckPlanOptions(options).error().message,
            "--pin and --partition modulo cannot be used together");
  options.pin_file = "";
  options.pin_super = false;
  EXPECT_EQ(CheckPlanOptions(options).error().message,
            "--no-pin-super has no effect: --partition modulo does not decide from statistics");
  options.pin_super = true;
  options.eligible = 4;
  options.uniform = false;
  EXPECT_EQ(CheckPlanOptions(options).error().message,
            "--eligible and --no-uniform cannot be used together with --partition modulo");
}

TEST(StatisticsOptions, ASeedIsOnlyForPartitionsWithRandomStarts) {
  PlanOptions options{.groups = 2, .statistics_files = {"s.json"}, .seed = 0};
  for (const char* partition : {"session", "coactivation"}) {
    options.partition = partition;
    EXPECT_TRUE(CheckPlanOptions(options)) << partition;
  }
  for (const std::string partition : {"same", "ranked", "contiguous", "modulo"}) {
    options.partition = partition;
    const Status checked = CheckPlanOptions(options);
    ASSERT_FALSE(checked) << partition;
    EXPECT_EQ(checked.error().message,
              "--seed has no effect: --partition " + partition + " has no random starts");
  }
}

TEST(StatisticsOptions, AcceptSeveralGroupCounts) {
  for (const auto& [text, expected] :
       {std::pair<std::string, std::vector<uint32_t>>{"3", {3}}, {"2,4,8", {2, 4, 8}}}) {
    PlanOptions options;
    std::vector<uint32_t> groups;
    CLI::App app;
    AddPlanOptions(app, options, groups);
    app.parse("--groups " + text);
    EXPECT_EQ(groups, expected);
    EXPECT_EQ(options.groups, expected[0]);
  }
  for (const char* wrong : {"2,", "0,3", "2;3", "65537"}) {
    PlanOptions options;
    std::vector<uint32_t> groups;
    CLI::App app;
    AddPlanOptions(app, options, groups);
    EXPECT_THROW(app.parse(std::string("--groups ") + wrong), CLI::ParseError) << wrong;
  }
}

TEST(StatisticsOptions, ReadTheSessionsOfAllFiles) {
  const fixtures::TempDir directory;
  const MoeModel model =
      ModelForTest().Layer({1, 4, 2, 10, false}).Layer({3, 3, 1, 10, false}).Build();
  Statistics first = SampleStatistics(), second = SampleStatistics();
  for (SessionTally& session : second.sessions) session.name += " again";
  const std::string a = directory / "a.json", b = directory / "b.json.zst";
  ASSERT_TRUE(WriteStatistics(a, first));
  ASSERT_TRUE(WriteStatistics(b, second));
  PlanOptions options{.statistics_files = {a, b}, .score = ScoreBasis::kCount};
  const PlanOptions read = WithScores(model, options).value();
  EXPECT_EQ(read.scores->sessions.size(), 4u);
  EXPECT_EQ(read.scores->basis, ScoreBasis::kCount);
  EXPECT_EQ(read.scores->digest.size(), 32u);
  options.score.reset();
  EXPECT_EQ(WithScores(model, options)->scores->basis, ScoreBasis::kWeightedNorm);
  options.statistics_files = {a};
  EXPECT_NE(WithScores(model, options)->scores->digest, read.scores->digest);
  options.statistics_files = {};
  EXPECT_EQ(WithScores(model, options)->scores, nullptr);
}

TEST(StatisticsOptions, ThePartitionIsChosenOnceTheyAreRead) {
  PlanOptions options{.groups = 2, .uniform = false, .statistics_files = {"s.json"}, .eligible = 4};
  EXPECT_TRUE(CheckPlanOptions(options)) << "what is in the file decides";
  auto scores = std::make_shared<ExpertScores>();
  scores->layers = {{0, 2, 1}};
  scores->sessions = {{"a", "", 10, {1, 2}, {}}};
  options.scores = scores;
  testing::internal::CaptureStderr();
  ASSERT_TRUE(ChoosePartition(options));
  EXPECT_EQ(options.partition, "same");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "partition: same, because the statistics have 1 session to plan from, fewer than "
            "\"session\" needs\n");
  options.partition.reset();
  scores->layer_agnostic = true;
  EXPECT_EQ(ChoosePartition(options).error().message,
            "--eligible and --no-uniform cannot be used together with --partition contiguous");
}

}  // namespace
}  // namespace moepack::cli
