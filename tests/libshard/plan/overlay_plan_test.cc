#include "libshard/plan/overlay_plan.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/libshard/model/model_for_test.h"

namespace moepack {
namespace {

ExpertScores Scores(std::vector<float> scores) {
  ExpertScores made;
  made.layers = {{0, 4, 2}, {3, 3, 2}};
  made.sessions.push_back({"s", "", 10, std::move(scores), {}});
  return made;
}

TEST(OverlayPlan, OrdersExpertsByTheSumOfScoresAndThenById) {
  const std::vector<ExpertScores> files = {Scores({1, 5, 0, 2, 3, 3, 1}),
                                           Scores({4, 1, 0, 2, 0, 0, 9})};
  const ExpertOrder order = OrderByScore(files);
  ASSERT_EQ(order.size(), 2u);
  EXPECT_EQ(order.at(0), (std::vector<uint32_t>{1, 0, 3, 2}));
  EXPECT_EQ(order.at(3), (std::vector<uint32_t>{2, 0, 1}));
}

TEST(OverlayPlan, TakesTheFirstExpertsOfALayerInAscendingOrder) {
  const ExpertOrder order = {{0, {2, 0, 1}}, {1, {1, 0}}, {2, {0}}};
  EXPECT_EQ(FirstOf(order, {{0, 2}, {1, 7}, {2, 0}}), (LayerExperts{{0, {0, 2}}, {1, {0, 1}}}));
}

TEST(OverlayPlan, DoesNotAffectTheGroupsAndTheirVersion) {
  const MoeModel model = ModelForTest().Layers(3, 16, 2).Build();
  PlanOptions options;
  options.groups = 3;
  const Json without = PartitionToJson(MakePlan(model, options).value());
  options.overlay_file = MOEPACK_SOURCE_DIR "/fixtures/tiny-overlay.json";
  const Plan first = MakePlan(model, options).value();
  options.overlay_file = MOEPACK_SOURCE_DIR "/fixtures/tiny-overlay-2.json";
  const Plan second = MakePlan(model, options).value();
  EXPECT_EQ(PartitionToJson(first), without);
  EXPECT_EQ(PartitionToJson(second), without);
  EXPECT_NE(first.overlays, second.overlays);
}

TEST(OverlayPlan, PromisesNoUniformityUnlessRequested) {
  PlanOptions options;
  options.groups = 2;
  options.uniform = false;
  options.overlay_file = MOEPACK_SOURCE_DIR "/fixtures/tiny-overlay.json";
  const Plan plan = MakePlan(ModelForTest().Layers(3, 16, 2).Build(), options).value();
  EXPECT_FALSE(plan.uniform);
  EXPECT_TRUE(plan.overlays[0].fill.empty());
}

TEST(OverlayPlan, MergingItIntoTheGroupsKeepsTheExpertsOfEveryNode) {
  const MoeModel model = ModelForTest().Layers(3, 16, 2).Build();
  PlanOptions options;
  options.groups = 3;
  options.overlay_file = MOEPACK_SOURCE_DIR "/fixtures/tiny-overlay.json";
  const Plan plan = MakePlan(model, options).value();
  const Plan merged = MergeOverlay(plan);
  EXPECT_TRUE(merged.overlays.empty());
  const Status checked = CheckPlan("merged", merged);
  EXPECT_TRUE(checked) << checked.error().message;
  for (size_t group = 0; group < plan.groups.size(); ++group) {
    for (const auto& [layer, count] : plan.layers) {
      EXPECT_EQ(Eligible(merged, group, layer), Eligible(plan, group, layer));
      EXPECT_EQ(IdsOf(merged.groups[group].owned, layer), IdsOf(plan.groups[group].owned, layer));
    }
  }
}

TEST(OverlayPlan, MergedExpertsThatNoGroupOwnsGoToTheFirstGroup) {
  Plan plan;
  plan.layers = {{0, 6}};
  plan.top_k = {{0, 1}};
  plan.groups.resize(2);
  plan.groups[0].owned = {{0, {0, 1}}};
  plan.groups[1].owned = {{0, {2, 3}}};
  plan.remainder = {{0, {4, 5}}};
  plan.overlays = {{"v1", "", {{0, {4}}}, {}}};
  const Plan merged = MergeOverlay(plan);
  EXPECT_EQ(merged.groups[0].owned, (LayerExperts{{0, {0, 1, 4}}}));
  EXPECT_EQ(merged.groups[1].fill, (LayerExperts{{0, {4}}}));
  EXPECT_EQ(merged.remainder, (LayerExperts{{0, {5}}}));
}

TEST(OverlayPlan, DropsLayersThatAreNotKeptAndEmptyFill) {
  OverlayPlan overlay{"v1", "", {{0, {1}}, {4, {2}}}, {{{4, {3}}}, {}}};
  KeepLayers({{0, 8}}, overlay);
  EXPECT_EQ(overlay.experts_by_layer, (LayerExperts{{0, {1}}}));
  EXPECT_TRUE(overlay.fill.empty());
}

}  // namespace
}  // namespace moepack
