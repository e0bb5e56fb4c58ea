#include "tools/page/page.h"

#include <gmock/gmock.h>

#include "tests/tools/page/page_sample.h"

namespace moepack::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kHostile = "</title><script>alert(\"x\")</script><img src=x onerror='y'>";

// Every text that a document can contain.
PageInputs HostileInputs() {
  PageInputs inputs = FullInputs();
  inputs.distribution->model.id = kHostile;
  inputs.distribution->model.architecture = kHostile;
  inputs.distribution->recipe.name = kHostile;
  inputs.distribution->plan.overlays[0].version = kHostile;
  inputs.distribution_path = kHostile;
  inputs.files[0].path = kHostile;
  inputs.warnings = {kHostile};
  inputs.scores->sessions[0].bucket = kHostile;
  inputs.scores->sessions[0].name = kHostile;
  PageEvaluation& evaluation = inputs.evaluations[0];
  evaluation.name = kHostile;
  evaluation.report.summary.groups[0].label = kHostile;
  evaluation.report.summary.sessions[0].name = kHostile;
  evaluation.report.summary.sessions[0].bucket = kHostile;
  evaluation.report.quality->groups[0].second.buckets[0].first = kHostile;
  evaluation.report.quality->best.buckets[0].first = kHostile;
  inputs.refits[0].steps[0] = kHostile;
  inputs.refits[0].parameters[kHostile] = kHostile;
  inputs.calibrations[0].parameters[kHostile] = kHostile;
  inputs.calibrations[0].calibration[0].name = kHostile;
  inputs.calibrations[0].calibration[0].bucket = kHostile;
  inputs.evaluations.push_back({kHostile, SomeQuantization(0.1, true)});
  inputs.evaluations.push_back({kHostile, SomeQuantization(0.2, false)});
  for (size_t i = 1; i < inputs.evaluations.size(); ++i)
    inputs.evaluations[i].report.precision = kHostile;
  inputs.distribution->quality = inputs.evaluations[0].report.quality;
  inputs.distribution->quality->tokens = 99;
  return inputs;
}

TEST(ReportPageTest, NeedsNoOtherFiles) {
  const std::string page = ReportPage(FullInputs());
  EXPECT_TRUE(page.starts_with("<!doctype html>\n"));
  for (const char* never : {"<script", "http://", "https://", "src=", "@import", "url(", "onload"})
    EXPECT_THAT(page, Not(HasSubstr(never))) << never;
  EXPECT_THAT(page, HasSubstr("default-src 'none'; style-src 'unsafe-inline'; img-src data:"));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme:dark"));
  EXPECT_THAT(page, HasSubstr("@media print"));
}

TEST(ReportPageTest, HasEverySectionAndALinkToIt) {
  const std::string page = ReportPage(FullInputs());
  for (const char* id : {"bytes", "damage", "calibration", "refit", "routing", "capture",
                         "placement", "overlap", "next", "inputs"}) {
    EXPECT_THAT(page, HasSubstr(Cat("<section id=\"", id, "\">")));
    EXPECT_THAT(page, HasSubstr(Cat("<li><a href=\"#", id, "\">")));
  }
  EXPECT_THAT(page, HasSubstr("<h1>example/tiny on 3 nodes</h1>"));
}

TEST(ReportPageTest, EveryPictureHasALabelAndATable) {
  const std::string page = ReportPage(FullInputs());
  EXPECT_EQ(CountOf(page, "<svg "), CountOf(page, "role=\"img\" aria-label=\""));
  EXPECT_GE(CountOf(page, "<figure>"), 8u);
  EXPECT_EQ(CountOf(page, "<figure>"), CountOf(page, "<details>"));
}

TEST(ReportPageTest, EscapesTextOfDocuments) {
  const std::string page = ReportPage(HostileInputs());
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_EQ(CountOf(page, "</title>"), CountOf(page, "<title>"));
  EXPECT_GE(CountOf(page, "&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;"), 15u);
}

TEST(ReportPageTest, EqualInputsGiveEqualBytes) {
  EXPECT_EQ(ReportPage(FullInputs()), ReportPage(FullInputs()));
}

TEST(ReportPageTest, SectionsWithoutFiguresAreLeftOut) {
  PageInputs inputs;
  inputs.scores = SomeScores();
  inputs.score_paths = {"statistics.json"};
  const std::string page = ReportPage(inputs);
  EXPECT_THAT(page, HasSubstr("<section id=\"routing\">"));
  for (const char* id :
       {"bytes", "damage", "calibration", "refit", "capture", "placement", "overlap"})
    EXPECT_THAT(page, Not(HasSubstr(Cat("<section id=\"", id, "\">"))));
  EXPECT_THAT(page, HasSubstr("moepack plan SRC --groups 2 --statistics statistics.json"));
}

TEST(ReportPageTest, ShowsWarningsAtTheTop) {
  PageInputs inputs = FullInputs();
  inputs.warnings = {"old.json: it measures another split"};
  const std::string page = ReportPage(inputs);
  EXPECT_THAT(page, HasSubstr("<ul class=\"warnings\">\n<li>old.json: it measures another split"));
}

}  // namespace
}  // namespace moepack::cli
