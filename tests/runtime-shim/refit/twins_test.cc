#include "runtime-shim/refit/twins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moepack::runtime {
namespace {

using testing::ElementsAre;

// Groups that hold these experts of one layer.
Plan PlanOfGroups(const std::vector<ExpertIds>& groups) {
  Plan plan;
  plan.layers = {{0, 8}};
  for (const ExpertIds& ids : groups) plan.groups.emplace_back().owned[0] = ids;
  return plan;
}

TEST(Twins, GroupsWithTheSameExpertsAreTwinsOfTheFirst) {
  const Plan plan = PlanOfGroups({{0, 1}, {2, 3}, {0, 1}, {2, 3}, {0, 1}});
  EXPECT_THAT(FirstTwins(plan, {}), ElementsAre(0, 1, 0, 1, 0));
}

TEST(Twins, FillMakesATwinOfAnOwnedExpert) {
  Plan plan = PlanOfGroups({{0, 1}, {}});
  plan.groups[1].fill[0] = {0, 1};
  EXPECT_THAT(FirstTwins(plan, {}), ElementsAre(0, 0));
}

TEST(Twins, GroupsWithDifferentTextWeightsAreNotTwins) {
  const Plan plan = PlanOfGroups({{0, 1}, {0, 1}});
  Calibration text;
  text.weights = {{}, {1, 1}};
  EXPECT_THAT(FirstTwins(plan, text), ElementsAre(0, 0));
  text.weights.push_back({1, 0.1f});
  EXPECT_THAT(FirstTwins(plan, text), ElementsAre(0, 1));
}

// An expert in the overlay stays unchanged, so the experts that a refit may change differ.
TEST(Twins, GroupsWithDifferentFillOfAnOverlayAreNotTwins) {
  Plan plan = PlanOfGroups({{0, 1}, {0}});
  OverlayPlan& overlay = plan.overlays.emplace_back();
  overlay.version = "one";
  overlay.experts_by_layer[0] = {};
  overlay.fill.resize(2);
  overlay.fill[1][0] = {1};
  EXPECT_EQ(Eligible(plan, 0, 0), Eligible(plan, 1, 0));
  EXPECT_THAT(FirstTwins(plan, {}), ElementsAre(0, 1));
}

}  // namespace
}  // namespace moepack::runtime
