#include "tools/reports/planning/plan_comparison.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/libshard/model/model_for_test.h"

namespace moepack::cli {
namespace {

ComparedPlan Compared(uint32_t groups, uint64_t trunk) {
  PlanOptions options;
  options.groups = groups;
  ComparedPlan compared;
  compared.plan = MakePlan(ModelForTest().Layers(2, 8, 1).Build(), options).value();
  compared.bytes = PartBytes{trunk, 0, 0, std::vector<uint64_t>(groups, 1000)};
  compared.bytes->groups[1] = 2000;
  return compared;
}

TEST(ComparisonTable, HasALineForEveryPlan) {
  EXPECT_EQ(ComparisonTable({Compared(2, 5000), Compared(4, 5000)}),
            "groups  eligible  largest node\n"
            "     2         4       7.00 kB\n"
            "     4         2       7.00 kB\n");
}

TEST(ComparisonTable, ShowsTheCaptureIfPlansKnowIt) {
  ComparedPlan compared = Compared(2, 0);
  compared.bytes.reset();
  PlanExpectation expectation;
  expectation.scheme = "contiguous";
  expectation.overall = {4, 0.61, 0.5, 0.55};
  expectation.contiguous = expectation.overall;
  expectation.same = {4, 0.7, 0.6, 0.65};
  expectation.oracle = {4, 0.9, 0.8, 0.85};
  compared.plan.expectation = expectation;
  EXPECT_EQ(
      ComparisonTable({compared}),
      "groups  eligible  largest node  capture      P5  if contiguous  if the same  if its own\n"
      "     2         4             -   61.0 %  50.0 %         61.0 %       70.0 %      90.0 "
      "%\n");
  const Json json = ComparisonJson({compared});
  EXPECT_EQ(json[0]["groups"], 2);
  EXPECT_EQ(json[0]["expectation"]["expected"]["mean"], 0.61);
  EXPECT_EQ(json[0]["nodes"].size(), 2u);
}

}  // namespace
}  // namespace moepack::cli
