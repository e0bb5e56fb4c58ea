#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/libshard/plan/placement_sample.h"

namespace moepack {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::Ge;
using ::testing::Optional;

PlacementTable Trained(const ExpertScores& scores, const PlacementOptions& options = {}) {
  const auto table = MakePlacement(scores, GroupsOfSessions(SamplePlacementPlan(), scores),
                                   kSampleGroups, options);
  EXPECT_TRUE(table) << (table ? "" : table.error().message);
  return table ? *table : PlacementTable();
}

TEST(PlacementTraining, AssignsASessionToTheGroupThatCapturesMostOfIt) {
  ExpertScores scores = SampleScores(1);
  scores.sessions.push_back(SampleSession(2, 0));
  std::fill(scores.sessions.back().scores.begin(), scores.sessions.back().scores.end(), 0.0f);
  EXPECT_THAT(GroupsOfSessions(SamplePlacementPlan(), scores),
              ElementsAre(Optional(0u), Optional(1u), Optional(2u), Eq(std::nullopt)));
}

// Otherwise a layer with large outputs would decide alone.
TEST(PlacementTraining, WeightsEveryLayerEqually) {
  ExpertScores scores = SampleScores(1);
  SessionScores& session = scores.sessions[0];
  session.scores = {0, 0, 400, 0, 600, 0, 0, 0, 3, 0, 1, 0};
  EXPECT_THAT(GroupsOfSessions(SamplePlacementPlan(), scores)[0], Optional(1u));
}

TEST(PlacementTraining, TheOverlayCountsForEveryGroup) {
  Plan plan = SamplePlacementPlan();
  plan.overlays = {{.version = "v1",
                    .parent = "",
                    .experts_by_layer = {{0, {0, 1, 2, 3, 4, 5}}, {1, {0, 1, 2, 3, 4, 5}}},
                    .fill = {}}};
  EXPECT_THAT(GroupsOfSessions(plan, SampleScores(1)), Each(Optional(0u)));
}

TEST(PlacementTraining, FindsThePlantedGroups) {
  const PlacementTable table = Trained(SampleScores());
  EXPECT_THAT(table.sessions_by_group, ElementsAre(4, 4, 4));
  EXPECT_EQ(table.tokens.ids.size(), 40u);
  EXPECT_EQ(table.tokens.left_out, 0u);
  for (uint32_t group = 0; group < kSampleGroups; ++group) {
    const PlacementAnswer answer = Place(table, std::vector<uint32_t>{10 * group + 3, 105});
    EXPECT_EQ(answer.best, group);
    EXPECT_TRUE(answer.sure);
    EXPECT_EQ(answer.known_share, 1);
  }
  // Tokens that all groups share say nothing.
  EXPECT_EQ(Place(table, std::vector<uint32_t>{101, 105, 107}).margin, 0);
}

TEST(PlacementTraining, ScoresAreSmoothedLogProbabilitiesInSteps) {
  const PlacementTable table = Trained(SampleScores());
  // 16 of the 400 tokens of group 0, none of the others; 40 rows and one symbol for all other
  // tokens.
  const double own = std::log(16.5 / (400 + 0.5 * 41)), none = std::log(0.5 / (400 + 0.5 * 41));
  const double mean = (own + 2 * none) / 3;
  const PlacementAnswer answer = Place(table, std::vector<uint32_t>{3});
  EXPECT_NEAR(*answer.scores[0], own - mean, table.tokens.scale / 2);
  EXPECT_NEAR(*answer.scores[1], none - mean, table.tokens.scale / 2);
  EXPECT_EQ(*std::max_element(table.tokens.scores.begin(), table.tokens.scores.end()), 127);
}

// Otherwise unseen tokens would favor the group with the fewest sessions.
TEST(PlacementTraining, DoesNotFavorGroupsWithManySessions) {
  ExpertScores scores = SampleScores();
  for (uint32_t number = 4; number < 20; ++number)
    scores.sessions.push_back(SampleSession(0, number));
  const PlacementTable table = Trained(scores);
  EXPECT_THAT(table.sessions_by_group, ElementsAre(20, 4, 4));
  EXPECT_EQ(Place(table, std::vector<uint32_t>{9999, 103}).margin, 0);
  EXPECT_EQ(Place(table, std::vector<uint32_t>{13}).best, 1u);
}

TEST(PlacementTraining, GivesNoRowToATokenSeenOnce) {
  ExpertScores scores = SampleScores();
  scores.sessions[1].token_counts.emplace_back(5000, 1);  // of group 1
  const PlacementTable table = Trained(scores);
  EXPECT_FALSE(std::binary_search(table.tokens.ids.begin(), table.tokens.ids.end(), 5000u));
  // It says nothing about tokens that occur in no session.
  const PlacementAnswer answer = Place(table, std::vector<uint32_t>(32, 9999));
  EXPECT_EQ(answer.margin, 0);
  EXPECT_EQ(answer.known_share, 0);
  EXPECT_FALSE(answer.sure);
}

TEST(PlacementTraining, KeepsTheMostInformativeTokensWhenRoomIsShort) {
  PlacementOptions options;
  options.token_bytes = 30 * (4 + kSampleGroups);
  const PlacementTable table = Trained(SampleScores(), options);
  EXPECT_EQ(table.tokens.left_out, 10u);
  ASSERT_EQ(table.tokens.ids.size(), 30u);
  EXPECT_EQ(table.tokens.ids.back(), 29u);  // the common ones are left out
}

TEST(PlacementTraining, LimitsTheTrialToAsManyRowsAsTheTable) {
  PlacementOptions options;
  options.token_bytes = 0;
  const PlacementTable table = Trained(SampleScores(), options);
  EXPECT_TRUE(table.tokens.ids.empty());
  EXPECT_EQ(table.trial.sessions, 12u);
  EXPECT_EQ(table.trial.right, 4u);  // the lowest group
  EXPECT_EQ(table.trial.sure, 0u);
}

TEST(PlacementTraining, CentroidsCoverAsManyFirstLayersAsFit) {
  const PlacementTable both = Trained(SampleScores());
  ASSERT_TRUE(both.centroids);
  EXPECT_EQ(both.centroids->layers, 2u);
  EXPECT_EQ(both.centroids->values.size(), 2 * kSampleExperts * kSampleGroups);
  const ExpertScores scores = SampleScores();
  // The second session is of the second group: what it chose most stands out there.
  const std::vector<float>& chosen = scores.sessions[1].scores;
  const size_t most =
      static_cast<size_t>(std::max_element(chosen.begin(), chosen.end()) - chosen.begin());
  const size_t of_group = both.centroids->values.size() / kSampleGroups;
  EXPECT_GT(both.centroids->values[of_group + most], both.centroids->values[most]);
  PlacementOptions options;
  options.centroid_bytes = 35;
  EXPECT_EQ(Trained(scores, options).centroids->layers, 1u);
  options.centroid_bytes = 17;
  EXPECT_FALSE(Trained(scores, options).centroids);
}

TEST(PlacementTraining, TheOrderOfSessionsDoesNotMatter) {
  ExpertScores reversed = SampleScores();
  std::reverse(reversed.sessions.begin(), reversed.sessions.end());
  EXPECT_EQ(Trained(reversed), Trained(SampleScores()));
}

TEST(PlacementTraining, SessionsWithoutTokenCountsAreRefused) {
  ExpertScores scores = SampleScores();
  for (SessionScores& session : scores.sessions) session.token_counts.clear();
  const auto table =
      MakePlacement(scores, GroupsOfSessions(SamplePlacementPlan(), scores), kSampleGroups, {});
  ASSERT_FALSE(table);
  EXPECT_EQ(table.error().code, Code::kInvalidArgument);
  EXPECT_EQ(table.error().message,
            "placement: sessions: expected some with token counts, found none");
  EXPECT_FALSE(PlacementFor(SamplePlacementPlan(), scores));
}

TEST(PlacementTraining, RefusesAPlacementIfEverySessionHasTheSameGroup) {
  ExpertScores scores = SampleScores();
  std::vector<std::optional<uint32_t>> groups(scores.sessions.size(), 2);
  const auto table = MakePlacement(scores, groups, kSampleGroups, {});
  ASSERT_FALSE(table);
  EXPECT_EQ(table.error().message,
            "placement: groups: expected sessions that suit at least 2, found that group 2 suits "
            "every session best");
  groups[0] = 0;
  EXPECT_TRUE(MakePlacement(scores, groups, kSampleGroups, {}));
}

TEST(PlacementTraining, TriesEverySessionWithATableTrainedWithoutIt) {
  const PlacementTable table = Trained(SampleScores());
  EXPECT_EQ(table.trial, (PlacementTrial{12, 12, 12, 12}));
  // Sessions that are alone in their group cannot be tried.
  EXPECT_EQ(Trained(SampleScores(1)).trial, PlacementTrial());
}

// Here the tokens of a session say nothing about other sessions, and the trial must notice: with
// its own counts, every session would be right.
TEST(PlacementTraining, TheTrialDoesNotUseTheTokensOfTheSession) {
  ExpertScores scores = SampleScores(8);
  for (uint32_t i = 0; i < scores.sessions.size(); ++i) {
    TokenCounts& counts = scores.sessions[i].token_counts;
    counts.clear();
    for (uint32_t token = 0; token < 20; ++token) counts.emplace_back(1000 + 20 * i + token, 5);
  }
  const PlacementTable table = Trained(scores);
  EXPECT_EQ(Place(table, std::vector<uint32_t>{1000, 1001}).best, 0u);
  EXPECT_THAT(table.trial.sessions, Ge(24u));
  EXPECT_EQ(table.trial.sure, 0u);
  // Unseen tokens do not favor any group either.
  EXPECT_EQ(Place(table, std::vector<uint32_t>{5, 6, 7}).margin, 0);
}

}  // namespace
}  // namespace moepack
