#include "tools/reports/planning/expectation_report.h"

#include <gtest/gtest.h>

namespace moepack::cli {
namespace {

PlanExpectation Sample() {
  PlanExpectation expectation;
  expectation.scheme = "session";
  expectation.format = "moepack-statistics";
  expectation.basis = ScoreBasis::kWeightedNorm;
  expectation.sessions = 72;
  expectation.held_out = 18;
  expectation.overall = {18, 0.8008, 0.7723, 0.79};
  expectation.groups = {{18, 0.8008, 0.7723, 0.79}, {}};
  expectation.contiguous = {18, 0.5761, 0.5123, 0.55};
  expectation.same = {18, 0.7833, 0.7544, 0.77};
  expectation.oracle = {18, 1, 1, 1};
  return expectation;
}

TEST(ExpectationText, ComparesThePlanWithOthersOfItsSize) {
  EXPECT_EQ(ExpectationText(Sample()),
            "expected from moepack-statistics, 72 sessions (gate x norm of output), measured on 18 "
            "held out\n"
            "what a session uses and its node has, mean over layers\n"
            "node                         sessions     mean      P25       P5\n"
            "0                                  18   80.1 %   79.0 %   77.2 %\n"
            "1                                   0        -        -        -\n"
            "all                                18   80.1 %   79.0 %   77.2 %\n"
            "if contiguous                      18   57.6 %   55.0 %   51.2 %\n"
            "if all nodes had the same          18   78.3 %   77.0 %   75.4 %\n"
            "if each session had its own        18  100.0 %  100.0 %  100.0 %\n");
}

TEST(ExpectationText, ListsPinnedExpertsAndSaysThatNothingWasHeldOut) {
  PlanExpectation expectation = Sample();
  expectation.held_out = 0;
  expectation.pinned = {{1, {68}}, {3, {2, 3, 82}}};
  const std::string text = ExpectationText(expectation);
  EXPECT_NE(text.find("measured on the same, because none was held out\n"
                      "pinned on every node: layer 1: 68; layer 3: 2-3,82\n"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace moepack::cli
