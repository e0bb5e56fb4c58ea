#include <gmock/gmock.h>

#include "tests/tools/page/page_sample.h"

namespace moepack::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A split, and the same refitted.
PageInputs WithExperiment() {
  ExperimentFigures split;
  split.row = "split, <same>";
  split.node_bytes = 11'700'000;
  split.sessions = 11;
  split.kld = {1.0625, 0.0625};
  split.loss = {0.75, 0.05};
  split.top1 = {0.469, 0.01};
  ExperimentFigures refit = split;
  refit.row = "refit, <same>";
  refit.refitted = true;
  refit.kld = {0.1875, 0.01};
  refit.from = "split, <same>";
  refit.change = {{-0.875, 0.05}};
  PageInputs inputs;
  inputs.experiments = {{"e.json", {true, {split, refit}}}};
  return inputs;
}

TEST(ExperimentSectionTest, TheTableHasEveryRow) {
  const auto section = ExperimentSection(WithExperiment());
  ASSERT_TRUE(section);
  EXPECT_THAT(TableOf(section->body, "table-experiment-1"),
              ElementsAre(ElementsAre("row", "a node", "KLD", "lost nats", "same top-1",
                                      "compared with", "change of KLD"),
                          ElementsAre("split, &lt;same&gt;", "11.7 MB", "1.0625 ± 0.0625",
                                      "0.7500 ± 0.0500", "46.9 %", "-", "-"),
                          ElementsAre("refit, &lt;same&gt;", "11.7 MB", "0.1875 ± 0.0100",
                                      "0.7500 ± 0.0500", "46.9 %", "split, &lt;same&gt;",
                                      "-0.8750 ± 0.0500")));
  EXPECT_THAT(section->body, HasSubstr("on 11 held-out sessions; whiskers"));
  EXPECT_EQ(CountOf(section->body, "class=\"whisker\""), 2u);
}

TEST(ExperimentSectionTest, SaysHowMuchDamageTheBestRefitLeaves) {
  const auto section = ExperimentSection(WithExperiment());
  ASSERT_EQ(section->findings.size(), 2u);
  EXPECT_EQ(section->findings[0], "");
  EXPECT_THAT(section->findings[1], HasSubstr("A refit lowers"));
  EXPECT_THAT(section->findings[1], HasSubstr("from 1.06 to <b>0.188 nats</b>"));
}

TEST(ExperimentSectionTest, SaysHowMuchDamageACalibrationLeaves) {
  PageInputs inputs = WithExperiment();
  ExperimentFigures& row = inputs.experiments[0].results.rows[1];
  row.refitted = false;
  row.calibrated = true;
  const auto section = ExperimentSection(inputs);
  EXPECT_THAT(section->body, HasSubstr("</span>calibrated</li>"));
  EXPECT_THAT(section->findings[0],
              HasSubstr("A calibration lowers the KL divergence of <i>split, &lt;same&gt;</i>"));
  EXPECT_EQ(section->findings[1], "");
}

TEST(ExperimentSectionTest, ARefitThatMayHaveChangedNothingLowersNothing) {
  PageInputs inputs = WithExperiment();
  ExperimentFigures& refit = inputs.experiments[0].results.rows[1];
  refit.change = {{-0.1, 0.05}};
  EXPECT_EQ(ExperimentSection(inputs)->findings[1], "");
  refit.change = {{0.2, 0.05}};
  EXPECT_EQ(ExperimentSection(inputs)->findings[1], "");
}

TEST(ExperimentSectionTest, TheLegendNamesOnlyWhatIsDrawn) {
  PageInputs inputs = WithExperiment();
  EXPECT_THAT(ExperimentSection(inputs)->body, HasSubstr("</span>refitted</li>"));
  inputs.experiments[0].results.rows.pop_back();
  const std::string body = ExperimentSection(inputs)->body;
  EXPECT_THAT(body, HasSubstr("</span>as it was</li>"));
  EXPECT_THAT(body, Not(HasSubstr("</span>refitted</li>")));
}

TEST(ExperimentSectionTest, IsAbsentWithoutSessions) {
  PageInputs inputs;
  EXPECT_FALSE(ExperimentSection(inputs));
  inputs.experiments = {{"e.json", {}}};
  EXPECT_FALSE(ExperimentSection(inputs));
}

}  // namespace
}  // namespace moepack::cli
