#include "tools/reports/runs/run_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace moepack::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

ComparedRuns Parted() {
  ComparedRuns runs;
  runs.expected = "cpu";
  runs.actual = "vulkan";
  runs.prompt = 3;
  runs.findings.positions = 10;
  runs.findings.worst = {false, 0.5, 0.025};
  runs.findings.worst_position = 7;
  runs.findings.greedy = runtime::SideBySide::Divergence{4, 12, 13};
  return runs;
}

TEST(ComparedRuns, TheTextNamesDivergenceAndLargestDifference) {
  const std::string text = ComparedText(Parted(), nullptr);
  EXPECT_THAT(text, HasSubstr("cpu and vulkan: 10 positions, 3 of them the prompt"));
  EXPECT_THAT(text, HasSubstr("after position 4 cpu continues with 12, vulkan with 13"));
  EXPECT_THAT(text, HasSubstr("5.00e-01 at position 7, 2.50e-02 of the largest"));
  EXPECT_THAT(text, Not(HasSubstr("tolerance")));
}

TEST(ComparedRuns, FailsOnlyBeyondAGivenTolerance) {
  ComparedRuns runs = Parted();
  EXPECT_TRUE(runs.passed());
  runs.tolerance = 0.025;
  EXPECT_TRUE(runs.passed());
  runs.tolerance = 0.02;
  EXPECT_FALSE(runs.passed());
  EXPECT_THAT(ComparedText(runs, nullptr), HasSubstr("more than the tolerance of 2.00e-02"));
}

TEST(ComparedRuns, JsonHasTheSameFigures) {
  const moepack::Json json = ComparedJson(Parted());
  EXPECT_EQ(json["first_divergence"]["position"], 4);
  EXPECT_EQ(json["relative_difference"], 0.025);
  EXPECT_EQ(json["tolerance"], nullptr);
  ComparedRuns equal = Parted();
  equal.findings = {};
  EXPECT_EQ(ComparedJson(equal)["first_divergence"], nullptr);
  EXPECT_EQ(ComparedJson(equal)["same_bits"], true);
}

TEST(GeneratedText, TheSummaryShowsTheSpeedAndWhyItEnded) {
  GeneratedText generated;
  generated.prompt = {1, 2, 3, 4};
  generated.tokens = {{5, -0.5}};
  generated.prompt_seconds = 2;
  generated.seconds = 0.5;
  generated.stop = "length";
  EXPECT_EQ(GeneratedSummary(generated),
            "prompt: 4 tokens in 2.00 s (2.00 per second); generated: 1 token in 0.50 s (2.00 per "
            "second), as many as requested");
  generated.stop = "end";
  EXPECT_THAT(GeneratedSummary(generated), HasSubstr("the model ended the text"));
  generated.stop = "context";
  EXPECT_THAT(GeneratedSummary(generated), HasSubstr("the context is full"));
}

TEST(GeneratedText, JsonHasIdsAndLogProbabilities) {
  GeneratedText generated;
  generated.tokens = {{5, -0.5}, {6, -1}};
  generated.text = "ab";
  generated.stop = "length";
  const moepack::Json json = GeneratedJson(generated);
  EXPECT_EQ(json["tokens"][1], (moepack::Json{{"id", 6}, {"logprob", -1.0}}));
  EXPECT_EQ(json["text"], "ab");
}

}  // namespace
}  // namespace moepack::cli
