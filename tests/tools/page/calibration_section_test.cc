#include <gmock/gmock.h>

#include "tests/tools/page/page_sample.h"

namespace moepack::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

PageInputs WithEvaluations() {
  PageInputs inputs;
  inputs.evaluations = {{"plain.json", SomeQuantization(0.0125, false)},
                        {"calibrated.json", SomeQuantization(0.0075, true)}};
  return inputs;
}

TEST(CalibrationSectionTest, TheTableHasEveryLayer) {
  const auto section = CalibrationSection(FullInputs());
  ASSERT_TRUE(section);
  EXPECT_THAT(
      TableOf(section->body, "table-calibration-1"),
      ElementsAre(ElementsAre("layer", "matrices", "with feedback", "too few tokens",
                              "no better on held-out text", "not multiplied", "error added"),
                  ElementsAre("layer 0", "20", "15", "3", "2", "0", "62.5 %"),
                  ElementsAre("layer 1", "20", "15", "3", "2", "0", "50.0 %"),
                  ElementsAre("output", "1", "1", "0", "0", "0", "37.5 %")));
  EXPECT_THAT(section->body, HasSubstr("Texts: <code>a.txt</code> (code) 4,000 tokens; "
                                       "method feedback-1; shrink 1."));
  EXPECT_THAT(section->findings.front(),
              HasSubstr("on <b>4,000 tokens</b>: 31 of 41 matrices are encoded with feedback"));
}

TEST(CalibrationSectionTest, TheTableHasTheLayersOfGroupsWithRefittedExperts) {
  PageInputs inputs;
  inputs.calibrations = {SomeCalibration()};
  CalibratedRecord& record = inputs.calibrations[0];
  CalibratedOutcome refitted = record.layers[0], none;
  none.layer = 1;
  record.groups = CalibratedGroups{std::string(16, 'a'), {{refitted, none}}};
  const auto section = CalibrationSection(inputs);
  ASSERT_TRUE(section);
  const auto table = TableOf(section->body, "table-calibration-1");
  ASSERT_EQ(table.size(), 5u);
  EXPECT_THAT(table[4], ElementsAre("group 0, layer 0", "20", "15", "3", "2", "0", "62.5 %"));
  EXPECT_THAT(section->findings.front(), HasSubstr("46 of 61 matrices are encoded with feedback"));
}

// Feedback may make up for more of what earlier layers got wrong than rounding costs.
TEST(CalibrationSectionTest, AnErrorBelowThatOfTheSourceIsNoShare) {
  PageInputs inputs;
  inputs.calibrations = {SomeCalibration()};
  inputs.calibrations[0].layers[0].error = -0.7;
  const auto section = CalibrationSection(inputs);
  ASSERT_TRUE(section);
  EXPECT_EQ(TableOf(section->body, "table-calibration-1")[1].back(), "below 0");
  EXPECT_THAT(section->body, HasSubstr("layer 0: below 0, less than with the weights before"));
  EXPECT_THAT(section->body, Not(HasSubstr("-8.8 %")));
  EXPECT_THAT(section->body, Not(HasSubstr("-9 %")));
}

TEST(CalibrationSectionTest, ShowsTheDivergenceBesideThePlainForm) {
  const auto section = CalibrationSection(WithEvaluations());
  ASSERT_TRUE(section);
  EXPECT_THAT(TableOf(section->body, "table-calibration-divergence"),
              ElementsAre(ElementsAre("evaluation", "weights", "calibrated on", "tokens", "KLD",
                                      "same top-1", "perplexity ratio"),
                          ElementsAre("plain.json", "q4_K+f32", "-", "100", "0.0125 ± 0.0013",
                                      "75.0 %", "1.2000 ± 0.0500"),
                          ElementsAre("calibrated.json", "q4_K+f32", "4,000 tokens", "100",
                                      "0.0075 ± 0.0008", "75.0 %", "1.2000 ± 0.0500")));
  EXPECT_THAT(
      section->findings,
      ElementsAre("Quantization of the same types costs <b>0.0075 nats</b> of KL divergence "
                  "per token with the calibration and 0.0125 without (calibrated.json, "
                  "plain.json)."));
}

TEST(CalibrationSectionTest, ComparesOnlyWhatRanTheSameTokens) {
  PageInputs inputs = WithEvaluations();
  inputs.evaluations[0].report.summary.reference->likelihood.log_probability = -2;
  const auto other_text = CalibrationSection(inputs);
  EXPECT_THAT(other_text->body, Not(HasSubstr("plain.json")));
  EXPECT_THAT(other_text->findings, ElementsAre(""));
  inputs = WithEvaluations();
  inputs.evaluations[0].report.precision = "q5_K+f32";
  const auto other_types = CalibrationSection(inputs);
  EXPECT_THAT(other_types->body, HasSubstr("plain.json"));
  EXPECT_THAT(other_types->findings, ElementsAre(""));
}

TEST(CalibrationSectionTest, IsAbsentWhereNothingWasCalibrated) {
  PageInputs inputs = WithEvaluations();
  inputs.evaluations.pop_back();
  EXPECT_FALSE(CalibrationSection(inputs));
  inputs.calibrations = {CalibratedRecord()};
  EXPECT_FALSE(CalibrationSection(inputs));
}

}  // namespace
}  // namespace moepack::cli
