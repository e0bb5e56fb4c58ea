#include "runtime-shim/eval/gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moepack::runtime {
namespace {

using ::testing::HasSubstr;

TEST(Gate, ReadsMetricRelationAndNumber) {
  const auto gate = ParseGate("kld<=0.15");
  ASSERT_TRUE(gate) << gate.error().message;
  EXPECT_EQ(gate->metric, "kld");
  EXPECT_EQ(gate->relation, "<=");
  EXPECT_EQ(gate->value, 0.15);
  EXPECT_FALSE(gate->each);
  EXPECT_EQ(gate->text, "kld<=0.15");
}

TEST(Gate, ReadsSpacesAndGroups) {
  const auto gate = ParseGate(" each.top1 >  9e-1 ");
  ASSERT_TRUE(gate) << gate.error().message;
  EXPECT_TRUE(gate->each);
  EXPECT_EQ(gate->metric, "top1");
  EXPECT_EQ(gate->relation, ">");
  EXPECT_EQ(gate->value, 0.9);
}

TEST(Gate, FollowsItsRelation) {
  struct Case {
    const char* text;
    bool below, equal, above;
  };
  for (const Case& c : {Case{"kld<=1", true, true, false}, Case{"kld>=1", false, true, true},
                        Case{"kld<1", true, false, false}, Case{"kld>1", false, false, true}}) {
    const auto gate = ParseGate(c.text);
    ASSERT_TRUE(gate);
    EXPECT_EQ(gate->Holds(0.5), c.below) << c.text;
    EXPECT_EQ(gate->Holds(1), c.equal) << c.text;
    EXPECT_EQ(gate->Holds(2), c.above) << c.text;
  }
}

TEST(Gate, AcceptsEveryMetric) {
  for (const char* metric : kGateMetrics) {
    const auto gate = ParseGate(std::string(metric) + "<1");
    ASSERT_TRUE(gate) << gate.error().message;
    EXPECT_EQ(gate->metric, metric);
  }
}

TEST(Gate, RefusesAnythingElse) {
  struct Case {
    const char* text;
    const char* expected;
  };
  for (const Case& c :
       {Case{"", "expected <=, >=, < or >"}, Case{"kld=1", "expected <=, >=, < or >"},
        Case{"loss<1", "expected one of kld, "}, Case{"<1", "expected one of"},
        Case{"each.<1", "expected one of"}, Case{"kld<", "expected a number"},
        Case{"kld<1x", "expected a number"}, Case{"kld<inf", "expected a number"},
        Case{"kld<=>1", "expected a number"}}) {
    const auto gate = ParseGate(c.text);
    ASSERT_FALSE(gate) << c.text;
    EXPECT_EQ(gate.error().code, Code::kInvalidArgument);
    EXPECT_THAT(gate.error().message, HasSubstr(c.expected)) << c.text;
  }
}

}  // namespace
}  // namespace moepack::runtime
