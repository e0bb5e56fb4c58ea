#include "libshard/plan/placement_learning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/libshard/model/model_for_test.h"
#include "tests/libshard/strategies/planted.h"

namespace moepack {
namespace {

// Two sessions of one layer with four experts: each uses another half, and has its own tokens.
std::shared_ptr<const ExpertScores> HalvedScores() {
  ExpertScores scores = ScoresOf({{0, 4, 2}}, {{4, 4, 1, 1}, {1, 1, 4, 4}});
  scores.sessions[0].token_counts = {{7, 3}};
  scores.sessions[1].token_counts = {{9, 3}};
  return std::make_shared<const ExpertScores>(std::move(scores));
}

MoeModel OneLayer() { return ModelForTest().Layers(1, 4, 2).Build(); }

TEST(PlacementLearning, GivesTheTableOfAPlanFromTheSameScores) {
  PlanOptions options;
  options.groups = 2;
  options.scores = HalvedScores();
  const auto with = MakePlan(OneLayer(), options);
  ASSERT_TRUE(with) << with.error().message;
  ASSERT_TRUE(with->placement);
  PlanOptions alone;
  alone.groups = 2;
  const auto without = MakePlan(OneLayer(), alone);
  ASSERT_TRUE(without && !without->placement);
  const auto learned = LearnPlacement(OneLayer(), options, *without);
  ASSERT_TRUE(learned) << learned.error().message;
  EXPECT_EQ(*learned, with->placement);
}

TEST(PlacementLearning, GivesNoTableIfOneGroupFitsAllSessions) {
  PlanOptions options;
  options.groups = 2;
  options.scores = HalvedScores();
  auto plan = MakePlan(OneLayer(), options);
  ASSERT_TRUE(plan);
  plan->groups[1] = plan->groups[0];
  const auto learned = LearnPlacement(OneLayer(), options, *plan);
  ASSERT_TRUE(learned) << learned.error().message;
  EXPECT_FALSE(*learned);
}

TEST(PlacementLearning, ScoresOfAnotherModelAreRefused) {
  PlanOptions options;
  options.scores = HalvedScores();
  Plan plan;
  plan.layers = {{0, 8}};
  plan.top_k = {{0, 2}};
  const auto learned = LearnPlacement(ModelForTest().Layers(1, 8, 2).Build(), options, plan);
  ASSERT_FALSE(learned);
  EXPECT_EQ(learned.error().code, Code::kMismatch);
  EXPECT_THAT(learned.error().message, testing::HasSubstr("layer 0: experts: expected 8, found 4"));
}

}  // namespace
}  // namespace moepack
