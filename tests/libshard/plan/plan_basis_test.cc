// Requirements on scores before a plan is made from them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "libshard/plan/plan.h"
#include "libshard/plan/plan_steps.h"
#include "tests/libshard/model/model_for_test.h"
#include "tests/libshard/strategies/planted.h"

namespace moepack {
namespace {

// Two sessions of two layers with four experts each.
ExpertScores SmallScores() {
  return ScoresOf({{0, 4, 2}, {1, 4, 2}}, {{1, 2, 3, 4, 4, 3, 2, 1}, {4, 3, 2, 1, 1, 2, 3, 4}});
}

PlanOptions SmallOptions(ExpertScores scores) {
  PlanOptions options;
  options.groups = 2;
  options.partition = "same";
  options.statistics_files = {"a.json", "b.json"};
  options.scores = std::make_shared<const ExpertScores>(std::move(scores));
  return options;
}

Error ErrorOfSmall(const PlanOptions& options) {
  const auto plan = MakePlan(ModelForTest().Layers(2, 4, 2).Build(), options);
  EXPECT_FALSE(plan);
  return plan ? Error{Code::kIo, "no error"} : plan.error();
}

TEST(PlanBasis, ScoresOfAnotherModelAreRefused) {
  ExpertScores scores = SmallScores();
  scores.layers[1].layer = 2;
  const Error moved = ErrorOfSmall(SmallOptions(scores));
  EXPECT_EQ(moved.code, Code::kMismatch);
  EXPECT_EQ(moved.message, "a.json, b.json: layer 1: expected 4 experts, found no such layer");
  const ExpertScores narrow = ScoresOf({{0, 4, 2}, {1, 3, 2}}, {{1, 2, 3, 4, 4, 3, 2}});
  EXPECT_EQ(ErrorOfSmall(SmallOptions(narrow)).message,
            "a.json, b.json: layer 1: experts: expected 4, found 3");
}

TEST(PlanBasis, ScoresThatAreNotNumbersAreRefused) {
  ExpertScores scores = SmallScores();
  scores.sessions[1].scores[6] = std::numeric_limits<float>::quiet_NaN();
  const Error error = ErrorOfSmall(SmallOptions(scores));
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_EQ(error.message,
            "a.json, b.json: session \"session1\": layer 1: expert 2: expected a finite score, not "
            "negative, found nan");
}

TEST(PlanBasis, ALayerWithoutScoresIsRefused) {
  ExpertScores scores = SmallScores();
  for (SessionScores& session : scores.sessions)
    std::fill(session.scores.begin() + 4, session.scores.end(), 0.0f);
  const Error error = ErrorOfSmall(SmallOptions(scores));
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_EQ(error.message, "a.json, b.json: layer 1: scores: expected one above 0, found none");
}

TEST(PlanBasis, RefusesFewerTokensThanExperts) {
  ExpertScores scores = SmallScores();
  scores.sessions[0].tokens = 1;
  scores.sessions[1].tokens = 2;
  const Error error = ErrorOfSmall(SmallOptions(scores));
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_EQ(error.message,
            "a.json, b.json: tokens: expected at least 4, the experts of layer 0, found 3");
  for (SessionScores& session : scores.sessions) session.tokens = 0;  // the source does not say
  EXPECT_TRUE(MakePlan(ModelForTest().Layers(2, 4, 2).Build(), SmallOptions(scores)));
}

TEST(PlanBasis, SuperExpertsMustBeExpertsOfTheModel) {
  ExpertScores scores = SmallScores();
  scores.super_experts[1] = {4};
  EXPECT_EQ(ErrorOfSmall(SmallOptions(scores)).message,
            "a.json, b.json: Super Experts: layer 1: expected an expert of the model, found 4");
}

// Runtimes skip blocks for multi-token prediction, so statistics do not have them.
TEST(PlanBasis, LayersForMultiTokenPredictionNeedNoScores) {
  ExpertScores scores = SmallScores();
  scores.co_selection.assign(2, std::vector<uint64_t>(PairCount(4), 1));
  const MoeModel model = ModelForTest()
                             .Layer({0, 4, 2, 10, false})
                             .Layer({1, 4, 2, 10, false})
                             .Layer({2, 4, 2, 10, true})
                             .Build();
  for (const char* partition : {"same", "session", "ranked", "coactivation"}) {
    PlanOptions options = SmallOptions(scores);
    options.partition = partition;
    const auto plan = MakePlan(model, options);
    ASSERT_TRUE(plan) << partition << ": " << plan.error().message;
    EXPECT_EQ(Eligible(*plan, 1, 2).size(), 2u) << partition;
    EXPECT_EQ(plan->expectation->concentration.size(), 3u);
  }
}

TEST(PlanBasis, CanMeasureAnyPartition) {
  PlanOptions options = SmallOptions(SmallScores());
  options.partition = "contiguous";
  options.eligible = 3;
  const Plan plan = MakePlan(ModelForTest().Layers(2, 4, 2).Build(), options).value();
  EXPECT_EQ(plan.scheme, "contiguous");
  EXPECT_EQ(Eligible(plan, 0, 0), (ExpertIds{0, 1, 2}));
  EXPECT_EQ(Eligible(plan, 1, 0), (ExpertIds{0, 2, 3}));
  ASSERT_TRUE(plan.expectation);
  EXPECT_EQ(plan.expectation->overall, plan.expectation->contiguous);
}

TEST(PlanBasis, RefusesFewerEligibleExpertsThanAGroupOwns) {
  PlanOptions options = SmallOptions(SmallScores());
  options.partition = "modulo";
  options.groups = 1;
  options.eligible = 3;
  const Error error = ErrorOfSmall(options);
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_EQ(error.message,
            "plan: group 0: layer 0: eligible experts: expected at most 3 as --eligible says, "
            "found 4");
}

using testing::ElementsAre;
using testing::IsEmpty;

std::set<std::string> Names(const ExpertScores& scores, const std::vector<size_t>& places) {
  std::set<std::string> names;
  for (const size_t place : places) names.insert(scores.sessions[place].name);
  return names;
}

TEST(SplitSessions, HoldsOutAFifthOfEveryBucket) {
  const ExpertScores scores = Planted{.kinds = 3, .sessions = 60}.Make();
  const SessionSplit split = SplitSessions(scores, 200);
  EXPECT_EQ(split.training.size(), 48u);
  std::map<std::string, int> buckets;
  for (const size_t place : split.held_out) ++buckets[scores.sessions[place].bucket];
  EXPECT_THAT(buckets,
              ElementsAre(std::pair("kind0", 4), std::pair("kind1", 4), std::pair("kind2", 4)));
  EXPECT_TRUE(std::is_sorted(split.training.begin(), split.training.end()));
}

TEST(SplitSessions, DependsOnNamesAndNotOnOrder) {
  const ExpertScores scores = Planted{.sessions = 31}.Make();
  ExpertScores reversed = scores;
  std::reverse(reversed.sessions.begin(), reversed.sessions.end());
  EXPECT_EQ(Names(scores, SplitSessions(scores, 200).held_out),
            Names(reversed, SplitSessions(reversed, 200).held_out));
}

TEST(SplitSessions, ASingleSessionIsNeverHeldOut) {
  const ExpertScores scores = Planted{.sessions = 1}.Make();
  EXPECT_THAT(SplitSessions(scores, 900).training, ElementsAre(0));
  EXPECT_THAT(SplitSessions(scores, 900).held_out, IsEmpty());
}

TEST(SplitSessions, HoldsOutNothingForAShareOfZero) {
  EXPECT_THAT(SplitSessions(Planted{}.Make(), 0).held_out, IsEmpty());
}

TEST(SplitSessions, LeavesSessionsWithoutScoresOutOfBothParts) {
  const ExpertScores scores = ScoresOf({{0, 2, 1}}, {{0, 0}, {1, 0}, {0, 2}});
  const SessionSplit split = SplitSessions(scores, 500);
  EXPECT_EQ(split.training.size() + split.held_out.size(), 2u);
  EXPECT_TRUE(std::find(split.training.begin(), split.training.end(), 0u) == split.training.end());
}

}  // namespace

}  // namespace moepack
