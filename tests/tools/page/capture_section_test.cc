#include <gmock/gmock.h>

#include "tests/tools/page/page_sample.h"

namespace moepack::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(CaptureSectionTest, MeasuresBucketsOnTheEligibleExpertsOfNodes) {
  const auto section = CaptureSection(FullInputs());
  ASSERT_TRUE(section);
  // Node 0 has 0, 1 and 2 in both layers: 9 of 10 and 10 of 10 of the code session; the others have
  // expert 0 of the overlay in addition to their own.
  EXPECT_THAT(TableOf(section->body, "table-buckets"),
              ElementsAre(ElementsAre("bucket", "sessions", "node 0", "node 1", "node 2"),
                          ElementsAre("code", "1", "95.0 %", "70.0 %", "50.0 %"),
                          ElementsAre("prose", "1", "5.0 %", "20.0 %", "80.0 %")));
}

TEST(CaptureSectionTest, ListsTheSessionsOfTheEvaluation) {
  const auto section = CaptureSection(FullInputs());
  EXPECT_THAT(
      TableOf(section->body, "table-sessions-1"),
      ElementsAre(ElementsAre("session", "bucket", "tokens", "captures most", "group 0", "group 1"),
                  ElementsAre("s0", "code", "60", "group 0", "80.0 %", "30.0 %"),
                  ElementsAre("s1", "prose", "40", "group 1", "40.0 %", "70.0 %")));
  EXPECT_THAT(section->body, HasSubstr("<title>s1, group 1: 70.0 %</title>"));
}

TEST(CaptureSectionTest, ShowsTheExpectationOfThePlanBesideOtherSets) {
  PageInputs inputs = FullInputs();
  PlanExpectation expectation;
  expectation.held_out = 4;
  expectation.overall = {4, 0.9, 0.7, 0.8};
  expectation.groups = {{4, 0.9, 0.7, 0.8}, {0, 0, 0, 0}};
  expectation.contiguous = {4, 0.5, 0.3, 0.4};
  expectation.same = {4, 0.75, 0.5, 0.6};
  expectation.oracle = {4, 0.95, 0.9, 0.9};
  inputs.plan->expectation = expectation;
  const auto section = CaptureSection(inputs);
  const auto rows = TableOf(section->body, "table-expected");
  ASSERT_EQ(rows.size(), 7u);
  EXPECT_THAT(rows[1], ElementsAre("this plan", "4", "90.0 %", "70.0 %", "80.0 %"));
  EXPECT_THAT(rows[6], ElementsAre("no plan can beat", "4", "95.0 %", "90.0 %", "90.0 %"));
  EXPECT_THAT(section->body, HasSubstr("no session would go there"));
}

}  // namespace
}  // namespace moepack::cli
