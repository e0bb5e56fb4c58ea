#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/plan/plan.h"
#include "tests/libshard/model/model_for_test.h"

namespace moepack {
namespace {

using ::testing::HasSubstr;

// A valid plan of two groups over one layer of eight experts, for the tests to break.
Plan SoundPlan() {
  PlanOptions options;
  options.groups = 2;
  return MakePlan(ModelForTest().Layers(1, 8, 2).Build(), options).value();
}

std::string Broken(const Plan& plan) {
  const Status status = CheckPlan("p.json", plan);
  if (status) return "accepted";
  EXPECT_EQ(status.error().code, Code::kCorrupt);
  EXPECT_THAT(status.error().message, HasSubstr("p.json: "));
  return status.error().message;
}

TEST(CheckPlan, AcceptsAValidPlan) { EXPECT_EQ(Broken(SoundPlan()), "accepted"); }

TEST(CheckPlan, RefusesNoGroupsAndMoreGroupsThanExperts) {
  Plan plan = SoundPlan();
  plan.groups.clear();
  EXPECT_THAT(Broken(plan), HasSubstr("groups: expected at least 1"));
  plan.groups.resize(9);
  EXPECT_THAT(Broken(plan), HasSubstr("groups: expected at most 8"));
}

TEST(CheckPlan, RefusesAnExpertInTwoGroups) {
  Plan plan = SoundPlan();
  plan.groups[1].owned[0] = {3, 4, 5, 6, 7};
  EXPECT_THAT(Broken(plan), HasSubstr("expert 3: expected one group, found groups 0 and 1"));
}

TEST(CheckPlan, RefusesIdsOutOfRangeEverywhere) {
  Plan plan = SoundPlan();
  plan.groups[1].owned[0].push_back(8);
  EXPECT_THAT(Broken(plan), HasSubstr("group 1: layer 0: expected ids below 8, found 8"));
  plan = SoundPlan();
  plan.groups[0].fill[0] = {9};
  EXPECT_THAT(Broken(plan), HasSubstr("group 0: fill: layer 0: expected ids below 8"));
  plan = SoundPlan();
  plan.remainder[0] = {8};
  EXPECT_THAT(Broken(plan), HasSubstr("remainder: layer 0"));
  plan = SoundPlan();
  plan.overlays = {{"v1", "", {{3, {0}}}, {}}};
  EXPECT_THAT(Broken(plan),
              HasSubstr("overlay \"v1\": layer 3: expected a layer with routed experts"));
  plan.overlays = {{"v1", "", {{0, {0}}}, {{}, {{0, {8}}}}}};
  EXPECT_THAT(Broken(plan),
              HasSubstr("overlay \"v1\": fill of group 1: layer 0: expected ids below 8, found 8"));
}

TEST(CheckPlan, RefusesIdsThatDoNotAscend) {
  Plan plan = SoundPlan();
  plan.groups[0].owned[0] = {0, 2, 1, 3};
  EXPECT_THAT(Broken(plan), HasSubstr("expected ascending ids"));
  plan.groups[0].owned[0] = {0, 1, 1, 2, 3};
  EXPECT_THAT(Broken(plan), HasSubstr("expected ascending ids"));
}

TEST(CheckPlan, RefusesAnExpertInNoPartOrInAGroupAndTheRemainder) {
  Plan plan = SoundPlan();
  plan.groups[0].owned[0] = {0, 1, 2};
  EXPECT_THAT(Broken(plan), HasSubstr("remainder: expected the experts of no group, \"3\""));
  plan = SoundPlan();
  plan.remainder[0] = {3};
  EXPECT_THAT(Broken(plan), HasSubstr("found \"3\""));
}

TEST(CheckPlan, RefusesFillWithAGroupsOwnExpertsOrTheRemainder) {
  Plan plan = SoundPlan();
  plan.groups[0].fill[0] = {3};
  EXPECT_THAT(Broken(plan), HasSubstr("fill: expected experts of other groups, found 3"));
  plan = SoundPlan();
  plan.groups[1].owned[0] = {4, 5, 6};
  plan.remainder[0] = {7};
  plan.groups[0].fill[0] = {7};
  EXPECT_THAT(Broken(plan), HasSubstr("found 7"));
}

TEST(CheckPlan, RefusesAnOverlayWithoutVersionOrWithoutExperts) {
  Plan plan = SoundPlan();
  plan.uniform = false;
  plan.overlays = {{"", "", {{0, {0}}}, {}}};
  EXPECT_THAT(Broken(plan), HasSubstr("overlay \"\": version: expected 1 to 64"));
  plan.overlays[0].version = "v1";
  EXPECT_EQ(Broken(plan), "accepted");
  plan.overlays[0].experts_by_layer.clear();
  EXPECT_THAT(Broken(plan), HasSubstr("overlay \"v1\": expected expert ids, found none"));
}

TEST(CheckPlan, RefusesABrokenPromiseOfUniformity) {
  Plan plan = SoundPlan();
  plan.groups[0].fill[0] = {4};
  EXPECT_THAT(Broken(plan), HasSubstr("uniform: expected one eligible count"));
  plan.uniform = false;
  EXPECT_EQ(Broken(plan), "accepted");
}

TEST(CheckPlan, RefusesFewerEligibleExpertsThanAKnownTopK) {
  Plan plan = SoundPlan();
  plan.top_k[0] = 5;
  EXPECT_THAT(Broken(plan), HasSubstr("group 0: layer 0: eligible experts: expected at least 5"));
  plan.top_k[0] = 0;
  EXPECT_EQ(Broken(plan), "accepted");
}

}  // namespace
}  // namespace moepack
