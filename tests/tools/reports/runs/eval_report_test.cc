#include "tools/reports/runs/eval_report.h"

#include <gmock/gmock.h>

#include "tests/tools/page/page_sample.h"

namespace moepack::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

size_t CountOf(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(EvalReportTest, WaysThatChooseTheSameGroupsAreShownOnce) {
  // In the sample capture and KLD agree, and the race is wrong about one session.
  const std::string text = EvalText(SomeEvaluation());
  EXPECT_THAT(text, HasSubstr("best by capture and KLD "));
  EXPECT_THAT(text, Not(HasSubstr("best by KLD")));
  EXPECT_THAT(text, HasSubstr("race winner"));
  EXPECT_THAT(text, HasSubstr(" where capture and KLD choose the group.\n"));
  EXPECT_THAT(text, HasSubstr(" where the race chooses the group.\n"));
  EvalReport report = SomeEvaluation();
  report.summary.sessions[1].race.winner = report.summary.sessions[1].by_kld;
  const std::string all = EvalText(report);
  EXPECT_THAT(all, Not(HasSubstr("race winner")));
  // Likelihood, damage, and a line for each of the two layers.
  EXPECT_EQ(CountOf(all, "\nbest by capture, KLD and race "), 4u);
}

TEST(EvalReportTest, StartsWithItsVerdictInOneSentence) {
  EvalReport report = SomeEvaluation();
  const auto verdict = [&] {
    const std::string text = EvalText(report);
    return text.substr(0, text.find('\n'));
  };
  EXPECT_THAT(verdict(), testing::MatchesRegex(
                             "The split (costs|is) [^.]*\\(mean KLD [0-9.]+\\) and keeps "
                             "[0-9.]+ % of the gate mass where capture chooses the group\\."));
  report.gates = {{"kld<=9", {}}, {"top1>=1", {"top1: expected >= 1, found 0.5"}}};
  EXPECT_THAT(verdict(), HasSubstr(" chooses the group; 1 of 2 gates failed."));
  report.gates.pop_back();
  EXPECT_THAT(verdict(), HasSubstr(" chooses the group; every gate holds."));
  report.summary.best_by_capture->total = report.summary.best_by_capture->split;
  report.summary.best_by_capture->split.reset();
  EXPECT_THAT(verdict(), testing::StartsWith("Split and quantization together cost "));
  report.summary.best_by_capture.reset();
  report.summary.quantization = runtime::Damage{};
  EXPECT_THAT(verdict(), testing::StartsWith("Quantization costs "));
  report.summary.quantization.reset();
  EXPECT_THAT(verdict(), testing::StartsWith("The model has a perplexity of "));
}

TEST(EvalReportTest, ADivergenceBeyondAllTypesIsWorseThanTheWorst) {
  EvalReport report = SomeEvaluation();
  for (auto* row : {&report.summary.best_by_capture, &report.summary.best_by_kld}) {
    (*row)->split->mean = 2.3;
  }
  EXPECT_THAT(EvalText(report),
              HasSubstr("The split is worse than an IQ1_M where capture and KLD choose"));
}

TEST(EvalReportTest, SaysWhichTextIsNotHeldOut) {
  EvalReport report = SomeEvaluation();
  report.quality->made_from = manifest::MadeFrom{1, false, std::nullopt};
  EXPECT_THAT(EvalText(report),
              HasSubstr("\nThe plan was made from 1 of the 2 sessions, which is not held out.\n"));
  report.quality->made_from = manifest::MadeFrom{0, false, std::nullopt};
  EXPECT_THAT(EvalText(report), Not(HasSubstr("held out")));
}

}  // namespace
}  // namespace moepack::cli
