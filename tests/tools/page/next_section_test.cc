#include <gmock/gmock.h>

#include "tests/tools/page/page_sample.h"

namespace moepack::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(NextSectionTest, NamesWhatIsMissing) {
  PageInputs inputs = FullInputs();
  inputs.scores.reset();
  inputs.evaluations.clear();
  const std::string body = NextSection(inputs)->body;
  EXPECT_THAT(body, HasSubstr("moepack profile out --text CALIBRATION -o statistics.json"));
  EXPECT_THAT(body, HasSubstr("moepack eval out --text HELD_OUT --json"));
  EXPECT_THAT(body, HasSubstr("moepack eval out --text HELD_OUT --record"));
  EXPECT_THAT(body, Not(HasSubstr("--gate")));
}

// `eval` refuses both kinds without the model, and `profile` cannot run them.
TEST(NextSectionTest, ADistributionWithoutTheWholeModelIsMeasuredAgainstIt) {
  PageInputs dropped = FullInputs();
  dropped.distribution->plan.groups[2].owned[1] = {4};
  dropped.distribution->plan.remainder[1] = {5};
  PageInputs refitted = FullInputs();
  refitted.distribution->refit = std::make_shared<const RefitRecord>(SomeRefit());
  for (PageInputs inputs : {dropped, refitted}) {
    EXPECT_THAT(NextSection(inputs)->body,
                HasSubstr("moepack eval out --against SRC --text HELD_OUT --gate"));
    inputs.scores.reset();
    inputs.evaluations.clear();
    const std::string body = NextSection(inputs)->body;
    EXPECT_THAT(body, HasSubstr("moepack profile SRC --text CALIBRATION -o statistics.json"));
    EXPECT_THAT(body, HasSubstr("moepack eval out --against SRC --text HELD_OUT --json"));
    EXPECT_THAT(body, HasSubstr("moepack eval out --against SRC --text HELD_OUT --record"));
  }
}

TEST(NextSectionTest, AsksForNothingThatExists) {
  PageInputs inputs = FullInputs();
  inputs.distribution->quality = SomeQuality();
  // What is recorded need not be measured again.
  inputs.evaluations.clear();
  EXPECT_THAT(NextSection(inputs)->body, Not(HasSubstr("HELD_OUT --json")));
  inputs = FullInputs();
  inputs.distribution->quality = SomeQuality();
  const std::string body = NextSection(inputs)->body;
  EXPECT_THAT(body, Not(HasSubstr("moepack profile")));
  EXPECT_THAT(body, Not(HasSubstr("--record")));
  // A tenth above what was measured.
  EXPECT_THAT(body, HasSubstr("--gate &#39;kld&lt;=0.275&#39;"));
  EXPECT_THAT(body, HasSubstr("moepack assemble out --group 0 -o node-0"));
}

TEST(NextSectionTest, CalibratedWeightsAreMeasuredOnOtherText) {
  PageInputs inputs = FullInputs();
  inputs.evaluations.clear();
  EXPECT_THAT(NextSection(inputs)->body, Not(HasSubstr("calibrated on")));
  inputs.distribution->calibrated = std::make_shared<const CalibratedRecord>(SomeCalibration());
  const std::string body = NextSection(inputs)->body;
  EXPECT_THAT(body, HasSubstr("that the plan was not made from, nor the weights calibrated on:"));
  EXPECT_THAT(body, HasSubstr("same kinds, and not those that the weights were calibrated on"));
}

TEST(NextSectionTest, SuggestsHowToImproveBadFigures) {
  PageInputs inputs = FullInputs();
  inputs.refits.clear();
  const std::string body = NextSection(inputs)->body;
  EXPECT_THAT(body, HasSubstr("A divergence of 0.250 is high."));
  EXPECT_THAT(body, HasSubstr("moepack plan SRC --groups 3 --statistics statistics.json"));
  EXPECT_THAT(body, HasSubstr("moepack refit out --against SRC --text CALIBRATION -o refitted"));
  inputs.evaluations[0].report.quality->best.all.split->kld.mean = 0.01;
  EXPECT_THAT(NextSection(inputs)->body, Not(HasSubstr("is high")));
}

// A name without its directory would look like a path and lead nowhere.
TEST(NextSectionTest, TextsAreNotNamedAsIfTheyWereHere) {
  PageInputs inputs = FullInputs();
  inputs.scores.reset();
  inputs.score_paths.clear();
  inputs.refits.clear();
  const std::string body = NextSection(inputs)->body;
  EXPECT_THAT(body, Not(HasSubstr(".jsonl")));
  EXPECT_THAT(body, HasSubstr("<code>SRC</code> the model"));
  EXPECT_THAT(body, HasSubstr("<code>CALIBRATION</code> texts"));
  EXPECT_THAT(body, HasSubstr("<code>HELD_OUT</code> other texts"));
}

TEST(NextSectionTest, InputsKeepTheirDirectories) {
  PageInputs inputs = FullInputs();
  inputs.refits.clear();
  inputs.score_paths = {"there/a.json", "there/b.json"};
  inputs.plan_path = "there/plan.json";
  const std::string body = NextSection(inputs)->body;
  EXPECT_THAT(body, HasSubstr("--statistics there/a.json --statistics there/b.json"));
  EXPECT_THAT(body, HasSubstr("moepack refit SRC --plan there/plan.json"));
}

TEST(NextSectionTest, PathsAreQuotedForTheShell) {
  PageInputs inputs = FullInputs();
  inputs.distribution_path = "-my out";
  EXPECT_THAT(NextSection(inputs)->body, HasSubstr("moepack verify &#39;./-my out&#39;"));
}

}  // namespace
}  // namespace moepack::cli
