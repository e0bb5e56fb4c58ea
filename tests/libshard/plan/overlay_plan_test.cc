#include "libshard/plan/overlay_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <nlohmann/json.hpp>
#include <string>

#include "libshard/base/text/text.h"
#include "tests/libshard/model/model_for_test.h"

namespace moepack {
namespace {

TEST(OverlayName, ALabelIsAName) {
  for (const char* name : {"1", "generalists-1", "None", "none-2", "auto.1"})
    EXPECT_EQ(ExpectedOverlayName(name), nullptr) << name;
  for (const char* name : {"", ".hidden", "../up", "v 1"})
    EXPECT_STREQ(ExpectedOverlayName(name), "1 to 64 of [A-Za-z0-9._-], the first not a dot");
}

TEST(OverlayName, WordsOfTheOptionAreReserved) {
  for (const std::string_view word : {kNoOverlay, kAutomaticOverlay})
    EXPECT_STREQ(ExpectedOverlayName(word),
                 "a name other than none and auto, which are words of --overlay");
}

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

// A stream of numbers that is the same on every machine.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed) {}
  uint32_t Below(uint32_t limit) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>((state_ >> 33) % limit);
  }

 private:
  uint64_t state_;
};

struct Split {
  uint32_t experts = 0, groups = 0, layers = 0;
};

Plan UniformPlan(const Split& split, const char* partition) {
  PlanOptions options;
  options.groups = split.groups;
  options.partition = partition;
  return MakePlan(ModelForTest().Layers(split.layers, split.experts, 1).Build(), options).value();
}

OverlayPlan RandomOverlay(const Plan& plan, Numbers& numbers) {
  OverlayPlan overlay;
  overlay.version = "v1";
  for (const auto& [layer, experts] : plan.layers) {
    for (uint32_t id = 0; id < experts; ++id) {
      if (numbers.Below(4) == 0) overlay.experts_by_layer[layer].push_back(id);
    }
  }
  overlay.experts_by_layer[0] =
      Union(overlay.experts_by_layer[0], {numbers.Below(plan.layers.at(0))});
  return overlay;
}

ExpertIds FillOfAll(const OverlayPlan& overlay, uint32_t layer) {
  ExpertIds all;
  for (const LayerExperts& fill : overlay.fill) all = Union(all, IdsOf(fill, layer));
  return all;
}

// The fewest experts from which every group can take the `target` that it lacks, by brute force.
int FewestExperts(const Plan& plan, const OverlayPlan& overlay, uint32_t layer, size_t target) {
  OverlayPlan bare = overlay;
  bare.fill.clear();
  const uint32_t experts = plan.layers.at(layer);
  int fewest = static_cast<int>(experts) + 1;
  for (uint32_t chosen = 0; chosen < (1u << experts); ++chosen) {
    if (std::popcount(chosen) >= fewest) continue;
    bool enough = true;
    for (size_t group = 0; group < plan.groups.size() && enough; ++group) {
      uint32_t held = 0;
      for (const uint32_t id : Eligible(plan, &bare, group, layer)) held |= 1u << id;
      enough = static_cast<size_t>(std::popcount(held | chosen)) >= target;
    }
    if (enough) fewest = std::popcount(chosen);
  }
  return fewest;
}

TEST(FillOverlay, GivesEveryGroupEquallyManyWithAsFewExpertsAsPossible) {
  Numbers numbers(1);
  for (int round = 0; round < 300; ++round) {
    const Split split{4 + numbers.Below(7), 2 + numbers.Below(3), 1 + numbers.Below(3)};
    Plan plan = UniformPlan(split, round % 2 == 0 ? "contiguous" : "modulo");
    OverlayPlan overlay = RandomOverlay(plan, numbers);
    const Status filled = FillOverlay(plan, {}, overlay);
    ASSERT_TRUE(filled) << filled.error().message;
    const size_t target = Eligible(plan, &overlay, 0, 0).size();
    for (const auto& [layer, experts] : plan.layers) {
      for (size_t group = 0; group < plan.groups.size(); ++group)
        EXPECT_EQ(Eligible(plan, &overlay, group, layer).size(), target);
      EXPECT_EQ(static_cast<int>(FillOfAll(overlay, layer).size()),
                FewestExperts(plan, overlay, layer, target))
          << "round " << round << ", layer " << layer;
    }
    plan.overlays = {overlay};
    EXPECT_TRUE(CheckPlan("plan", plan));
  }
}

TEST(FillOverlay, FillsWithTheIdsAfterTheOverlayOrTheFirstOfAnOrder) {
  const Plan plan = UniformPlan({16, 2, 1}, "contiguous");
  OverlayPlan overlay;
  overlay.experts_by_layer = {{0, {3, 5, 8}}};  // group 0 lacks 8 of it, group 1 lacks 3 and 5
  ASSERT_TRUE(FillOverlay(plan, {}, overlay));
  EXPECT_EQ(FormatIds(IdsOf(FillOf(overlay, 0), 0)), "9");
  EXPECT_EQ(FormatIds(IdsOf(FillOf(overlay, 1), 0)), "");
  ASSERT_TRUE(
      FillOverlay(plan, {{0, {8, 1, 14, 0, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 15}}}, overlay));
  EXPECT_EQ(FormatIds(IdsOf(FillOf(overlay, 0), 0)), "14");
}

TEST(FillOverlay, DoesNotFillWithExpertsOfNoGroupUnlessTheOverlayHasThem) {
  Plan plan = UniformPlan({8, 2, 1}, "contiguous");
  plan.groups[0].owned[0] = {0, 1, 2};
  plan.groups[1].owned[0] = {3, 4, 5};
  plan.remainder[0] = {6, 7};
  OverlayPlan overlay;
  overlay.version = "v1";
  overlay.experts_by_layer = {{0, {3, 4, 7}}};
  ASSERT_TRUE(FillOverlay(plan, {}, overlay));
  EXPECT_EQ(FormatIds(Eligible(plan, &overlay, 0, 0)), "0-4,7");
  EXPECT_EQ(FormatIds(Eligible(plan, &overlay, 1, 0)), "0-1,3-5,7");
}

TEST(FillOverlay, LeavesAPlanThatIsNotUniformWithoutFill) {
  Plan plan = UniformPlan({8, 2, 1}, "contiguous");
  plan.uniform = false;
  OverlayPlan overlay;
  overlay.experts_by_layer = {{0, {1, 2, 7}}};
  ASSERT_TRUE(FillOverlay(plan, {}, overlay));
  EXPECT_TRUE(overlay.fill.empty());
}

TEST(FillOverlay, RefusesAnOverlayThatALayerHasTooFewExpertsFor) {
  Plan plan = UniformPlan({6, 2, 2}, "contiguous");
  plan.groups[0].owned[1] = {0};
  plan.groups[0].fill[1] = {1, 2};
  plan.groups[1].owned[1] = {1, 2};
  plan.groups[1].fill[1] = {0};
  plan.remainder[1] = {3, 4, 5};
  OverlayPlan overlay;
  overlay.version = "v1";
  overlay.experts_by_layer = {{0, {0, 5}}};
  const Status filled = FillOverlay(plan, {}, overlay);
  ASSERT_FALSE(filled);
  EXPECT_EQ(filled.error().code, Code::kInvalidArgument);
  EXPECT_EQ(filled.error().message,
            "overlay \"v1\": layer 1: experts to fill every group up to one count: expected 4, "
            "found 3");
  EXPECT_THAT(filled.error().hint, testing::HasSubstr("--no-uniform"));
}

}  // namespace

}  // namespace moepack
