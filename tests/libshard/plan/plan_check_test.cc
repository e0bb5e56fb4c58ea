#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/plan/plan.h"
#include "tests/libshard/model/model_for_test.h"
#include "tests/libshard/plan/plan_sample.h"

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

using ::testing::Contains;
using ::testing::EndsWith;
using ::testing::IsEmpty;
using ::testing::Not;

class PlanWarningsTest : public PlanFromFiles {};

std::vector<std::string> WarningsOf(const MoeModel& model, const PlanOptions& options) {
  return PlanWarnings(model, MakePlan(model, options).value(), &options);
}

TEST_F(PlanWarningsTest, WarnsOfNothingWhenGroupsAreLargeAndEven) {
  EXPECT_THAT(WarningsOf(ModelForTest().Layers(2, 64, 2).Build(), Groups(4)), IsEmpty());
}

TEST_F(PlanWarningsTest, WarnsOfGroupsBelowAQuarterOrEightTimesTopK) {
  const auto small = WarningsOf(ModelForTest().Layers(1, 128, 1).Build(), Groups(8));
  EXPECT_THAT(small, Contains(HasSubstr("group 0 may pick from 16 of 128 in layer 0")));
  EXPECT_THAT(small, Not(Contains(HasSubstr("8 times"))));
  const auto few = WarningsOf(ModelForTest().Layers(1, 64, 8).Build(), Groups(2));
  EXPECT_THAT(few, Contains(HasSubstr("below 8 times the experts per token")));
  EXPECT_THAT(few, Not(Contains(HasSubstr("quarter"))));
}

TEST_F(PlanWarningsTest, WarnsOfExpertsOnNoNodeUnlessTheOverlayHasThem) {
  const MoeModel model = ModelForTest().Layers(1, 8, 2).Build();
  PlanOptions options = Groups(2, Explicit(R"({"groups": [{"*": "0-2"}, {"*": "3-5"}]})"));
  EXPECT_THAT(WarningsOf(model, options),
              Contains(HasSubstr("remainder: 2 experts in 1 layer are on no node")));
  options.overlay_file = Overlay(R"({"version": "v1", "layers": {"*": "6-7"}})");
  EXPECT_THAT(WarningsOf(model, options), Not(Contains(HasSubstr("remainder"))));
  EXPECT_THAT(OnNoNode(MakePlan(model, options).value()), IsEmpty());
}

TEST_F(PlanWarningsTest, WarnsOfTheCostOfFill) {
  const auto warnings = WarningsOf(ModelForTest().Layers(3, 16, 2, 1'000'000).Build(), Groups(3));
  EXPECT_THAT(warnings, Contains(HasSubstr("repeats 6 experts and costs 6.00 MB")));
  const auto unknown = WarningsOf(ModelForTest().Layers(3, 16, 2, 0).Build(), Groups(3));
  EXPECT_THAT(unknown, Contains(HasSubstr("repeats 6 experts; --no-uniform")));
}

TEST_F(PlanWarningsTest, RecommendsNoUniformOnlyWhereItHelps) {
  const MoeModel model = ModelForTest().Layers(3, 16, 2, 1'000'000).Build();
  PlanOptions options = Groups(3);
  EXPECT_THAT(WarningsOf(model, options),
              Contains(HasSubstr("6.00 MB in the types of the source; --no-uniform")));
  EXPECT_THAT(PlanWarnings(model, MakePlan(model, options).value(), nullptr),
              Contains(EndsWith("6.00 MB in the types of the source")))
      << "a plan from a file or for machines";
  options.eligible = 8;  // which excludes --no-uniform
  EXPECT_THAT(WarningsOf(model, options), Not(Contains(HasSubstr("--no-uniform"))));
  // Without fill, group 1 would have no experts.
  const PlanOptions empty = Groups(2, Explicit(R"({"groups": [{"*": "0-15"}, {"*": ""}]})"));
  EXPECT_THAT(WarningsOf(model, empty), Contains(HasSubstr("fill: ")));
  EXPECT_THAT(WarningsOf(model, empty), Not(Contains(HasSubstr("--no-uniform"))));
}

TEST_F(PlanWarningsTest, WarnsOfLayersAndEligibleSetsThatDiffer) {
  const MoeModel model =
      ModelForTest().Layer({0, 32, 2, 10, false}).Layer({1, 40, 2, 10, false}).Build();
  PlanOptions options = Groups(2);
  EXPECT_THAT(WarningsOf(model, options),
              Contains(HasSubstr("number of experts: 32 in layer 0, 40 in layer 1")));
  options.uniform = false;
  EXPECT_THAT(WarningsOf(model, options), Contains(HasSubstr("number of eligible experts")));
}

TEST_F(PlanWarningsTest, DoesNotWarnOfUnequalNodesWithEqualLayers) {
  PlanOptions options = Groups(3);
  options.uniform = false;  // 6, 5 and 5 experts in every layer
  const auto warnings = WarningsOf(ModelForTest().Layers(3, 16, 2).Build(), options);
  EXPECT_THAT(warnings, Not(Contains(HasSubstr("number of eligible experts"))));
}

TEST_F(PlanWarningsTest, WarnsOfNodesThatNoSessionWouldChoose) {
  const MoeModel model = ModelForTest().Layers(2, 64, 2).Build();
  Plan plan = MakePlan(model, Groups(4)).value();
  plan.expectation.emplace();
  plan.expectation->held_out = 24;
  plan.expectation->overall.sessions = 24;
  plan.expectation->groups.resize(4);
  plan.expectation->groups[0].sessions = 24;
  EXPECT_THAT(PlanWarnings(model, plan, nullptr),
              testing::ElementsAre("idle: none of the 24 held-out sessions would go to nodes 1-3, "
                                   "because another node holds more of what each of them uses; use "
                                   "fewer nodes, or nodes of one size"));
  plan.expectation->groups[1].sessions = plan.expectation->groups[2].sessions = 1;
  EXPECT_THAT(PlanWarnings(model, plan, nullptr),
              testing::ElementsAre(HasSubstr(" would go to node 3, ")));
  plan.expectation->groups[3].sessions = 1;
  EXPECT_THAT(PlanWarnings(model, plan, nullptr), IsEmpty());
}

TEST_F(PlanWarningsTest, DoesNotWarnOfIdleNodesWithFewerSessionsThanNodes) {
  const MoeModel model = ModelForTest().Layers(2, 64, 2).Build();
  Plan plan = MakePlan(model, Groups(4)).value();
  plan.expectation.emplace();
  plan.expectation->held_out = plan.expectation->overall.sessions = 3;
  plan.expectation->groups.resize(4);
  plan.expectation->groups[0].sessions = 3;
  EXPECT_THAT(PlanWarnings(model, plan, nullptr), IsEmpty());
}

TEST_F(PlanWarningsTest, WarnsWhenRoutingGroupsAreCut) {
  ModelConfig config;
  config.routing.groups = 4;
  config.routing.groups_used = 2;
  const MoeModel model = ModelForTest(config).Layers(2, 32, 2).Build();
  EXPECT_THAT(WarningsOf(model, Groups(2)), Not(Contains(HasSubstr("routing groups"))));
  const auto cut = WarningsOf(model, Groups(2, "modulo"));
  EXPECT_THAT(cut,
              Contains(HasSubstr("first picks 2 of 4 groups of experts, and 4 of 4 eligible")));
}

TEST_F(PlanWarningsTest, WarnsOfExpertsThatShareChunks) {
  TensorRule chunk;
  chunk.role = "chunk_experts";
  const MoeModel model = ModelForTest().Layers(1, 32, 2).Tensor(chunk, {}, "BF16", {4, 4}).Build();
  EXPECT_THAT(WarningsOf(model, Groups(2)), Contains(HasSubstr("assemble refuses one")));
  EXPECT_THAT(WarningsOf(model, Groups(1)), Not(Contains(HasSubstr("chunk experts"))));
}

TEST_F(PlanWarningsTest, WarnsOfHashRoutingTables) {
  TensorRule table;
  table.part = Part::kRouter;
  table.holds_expert_ids = true;
  const MoeModel model = ModelForTest().Layers(1, 32, 2).Tensor(table, {}, "I64", {100, 2}).Build();
  EXPECT_THAT(WarningsOf(model, Groups(2)), Contains(HasSubstr("hash routing: 1 tables")));
}

TEST_F(PlanWarningsTest, SaysThatLayersWithHashRoutingStayWhole) {
  TensorRule table;
  table.part = Part::kRouter;
  table.holds_expert_ids = true;
  ModelTensor first;
  first.layer = 0;
  const MoeModel model =
      ModelForTest().Layers(2, 32, 2).Tensor(table, first, "I64", {100, 2}).Build();
  const auto plan = MakePlan(model, Groups(2));
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_TRUE(IsWhole(*plan, 0));
  EXPECT_FALSE(IsWhole(*plan, 1));
  EXPECT_EQ(Eligible(*plan, 1, 0).size(), 32u);
  EXPECT_EQ(Eligible(*plan, 1, 1).size(), 16u);
  EXPECT_FALSE(plan->uniform);
  EXPECT_TRUE(CheckPlan("plan", *plan));
  EXPECT_THAT(WarningsOf(model, Groups(2)),
              Contains(HasSubstr("in 1 layer, which every group therefore holds whole")));
  EXPECT_TRUE(MakePlan(model, Groups(1))->uniform);
}

}  // namespace

}  // namespace moepack
