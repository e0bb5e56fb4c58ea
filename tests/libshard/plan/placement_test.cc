#include "libshard/plan/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "libshard/base/text/base64.h"
#include "tests/libshard/model/model_for_test.h"
#include "tests/libshard/plan/placement_sample.h"
#include "tests/libshard/strategies/planted.h"

namespace moepack {
namespace {

using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::Optional;

PlacementAnswer AnswerFor(const std::vector<uint32_t>& tokens) {
  return Place(SampleTable(), tokens);
}

TEST(Placement, AddsUpTheScoresOfTheFirstTokens) {
  // 70000 comes after the prefix of four tokens, and 5 has no row.
  const PlacementAnswer answer = AnswerFor({3, 3, 200, 5, 70000});
  EXPECT_THAT(answer.scores, ElementsAre(Optional(4.25), Eq(std::nullopt), Optional(-4.25)));
  EXPECT_EQ(answer.best, 0u);
  EXPECT_EQ(answer.second, 2u);
  EXPECT_EQ(answer.margin, 8.5);
  EXPECT_TRUE(answer.sure);
  EXPECT_EQ(answer.tokens, 4u);
  EXPECT_EQ(answer.known_share, 0.75);
}

TEST(Placement, IsNotSureIfTheLeadIsBelowTheMargin) {
  const PlacementAnswer answer = AnswerFor({200, 200});
  EXPECT_EQ(answer.best, 0u);
  EXPECT_EQ(answer.margin, 1);
  EXPECT_TRUE(answer.sure);
  EXPECT_FALSE(AnswerFor({200}).sure);
}

TEST(Placement, ChoosesTheLowestGroupInATieAndIsNotSure) {
  const PlacementAnswer answer = AnswerFor({3, 4, 4});
  EXPECT_EQ(answer.best, 0u);
  EXPECT_EQ(answer.second, 2u);
  EXPECT_EQ(answer.margin, 0);
  EXPECT_FALSE(answer.sure);
}

TEST(Placement, IgnoresTokensWithoutARow) {
  PlacementTable table = SampleTable();
  table.margin = 0;
  const PlacementAnswer answer = Place(table, std::vector<uint32_t>{5, 6, 1000});
  EXPECT_THAT(answer.scores, ElementsAre(Optional(0.0), Eq(std::nullopt), Optional(0.0)));
  EXPECT_EQ(answer.margin, 0);
  EXPECT_EQ(answer.known_share, 0);
  EXPECT_FALSE(answer.sure);
}

TEST(Placement, IsSureOnlyIfHalfOfTheTokensHaveARow) {
  const PlacementAnswer few = AnswerFor({70000, 5, 6});
  EXPECT_EQ(few.best, 2u);
  EXPECT_EQ(few.margin, 63.5);
  EXPECT_FALSE(few.sure);
  EXPECT_TRUE(AnswerFor({70000, 5}).sure);
}

TEST(Placement, IsNotSureWithoutTokens) {
  PlacementTable table = SampleTable();
  table.margin = 0;
  const PlacementAnswer answer = Place(table, {});
  EXPECT_FALSE(answer.sure);
  EXPECT_EQ(answer.tokens, 0u);
  EXPECT_EQ(answer.known_share, 0);
}

TEST(Placement, NeverChoosesAGroupWithoutSessions) {
  PlacementTable table = SampleTable();
  for (size_t row = 0; row < 4; ++row) table.tokens.scores[row * 3 + 1] = 127;
  const PlacementAnswer answer = Place(table, std::vector<uint32_t>{3, 4});
  EXPECT_THAT(answer.scores, ElementsAre(Optional(1.0), Eq(std::nullopt), Optional(-1.0)));
  EXPECT_EQ(answer.best, 0u);
  EXPECT_EQ(answer.second, 2u);
  EXPECT_EQ(answer.margin, 2);
}

TEST(Placement, TheFixedLogarithmIsTheLogarithm) {
  for (double x = 1e-12; x < 1e12; x *= 1.7) {
    EXPECT_NEAR(FixedLog(x), std::log(x), 1e-15 * std::max(1.0, std::abs(std::log(x)))) << x;
  }
  EXPECT_EQ(FixedLog(1), 0);
}

const LayerCounts kTableLayers = {{0, kSampleExperts}, {1, kSampleExperts}};

Result<PlacementTable> ReadTable(const Json& document) {
  return PlacementFromJson("d.json: placement", document, 3, kTableLayers);
}

std::string Refusal(const std::function<void(Json&)>& change) {
  Json document = PlacementToJson(SampleTable());
  change(document);
  const auto read = ReadTable(document);
  if (read) return "was read";
  EXPECT_EQ(read.error().code, Code::kCorrupt);
  return read.error().message;
}

TEST(PlacementJson, ReadsBackWhatItWrote) {
  const std::string text = WriteJson(PlacementToJson(SampleTable()));
  const auto document = ParseJson("d.json", text);
  ASSERT_TRUE(document);
  const auto read = ReadTable(*document);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, SampleTable());
  EXPECT_EQ(WriteJson(PlacementToJson(*read)), text);
}

TEST(PlacementJson, ReadsBackATrainedTable) {
  const auto made = PlacementFor(SamplePlacementPlan(), SampleScores());
  ASSERT_TRUE(made);
  const auto read = ReadTable(PlacementToJson(*made));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, *made);
}

// The rows stay; the score of tokens without a row is no longer read.
TEST(PlacementJson, ScoresOfTokensWithoutARowAreNotRead) {
  Json document = PlacementToJson(SampleTable());
  document["tokens"]["other"] = {-2, 0, 2};
  const auto read = ReadTable(document);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, SampleTable());
}

TEST(PlacementJson, IsLaidOutAsDocumented) {
  PlacementTable table = SampleTable();
  table.tokens.ids = {3, 4, 200};
  table.tokens.scores.resize(9);
  table.centroids.reset();
  EXPECT_EQ(PlacementToJson(table).dump(),
            R"({"rule":"table","prefix_tokens":4,"margin":1.0,"sessions":[5,0,7],)"
            R"("trial":{"sessions":12,"right":9,"sure":8,"sure_right":7},)"
            R"("tokens":{"count":3,"left_out":11,"scale":0.25,)"
            R"("ids":"AwDDAQ==","scores":"CAD4/AAEAQD/"}})");
}

TEST(PlacementJson, GroupsThatTheDistributionLacksAreRefused) {
  EXPECT_EQ(Refusal([](Json& json) { json["sessions"].push_back(3u); }),
            "d.json: placement: sessions: expected 3 groups, found 4");
  EXPECT_EQ(Refusal([](Json& json) { json["sessions"][0] = 0u; }),
            "d.json: placement: sessions: expected sessions of two groups at least, found an array "
            "of 3 values");
  EXPECT_EQ(Refusal([](Json& json) { json["sessions"][1] = -1; }),
            "d.json: placement: sessions: expected numbers below 2^32, found an array of 3 values");
}

TEST(PlacementJson, TablesThatContradictThemselvesAreRefused) {
  EXPECT_EQ(Refusal([](Json& json) { json["tokens"]["count"] = 3u; }),
            "d.json: placement: tokens: ids: expected 3 ascending ids, found something else");
  EXPECT_EQ(Refusal([](Json& json) { json["tokens"]["ids"] = "????"; }),
            "d.json: placement: tokens: ids: expected 4 ascending ids, found something else");
  EXPECT_EQ(Refusal([](Json& json) {
              json["tokens"]["ids"] = EncodeBase64("\xff\xff\xff\x7f\x01\x01\x01");
            }),
            "d.json: placement: tokens: ids: expected 4 ascending ids, found something else");
  EXPECT_EQ(Refusal([](Json& json) { json["tokens"]["scores"] = "AAAA"; }),
            "d.json: placement: tokens: scores: expected 12 bytes, found 3");
  EXPECT_EQ(Refusal([](Json& json) { json["tokens"]["scores"] = "A"; }),
            "d.json: placement: tokens: scores: expected base64, found other text");
  EXPECT_EQ(Refusal([](Json& json) { json["trial"]["right"] = 13u; }),
            "d.json: placement: trial: right: expected a number from 0 to 12, found 13");
  EXPECT_EQ(Refusal([](Json& json) { json["trial"]["sure_right"] = 9u; }),
            "d.json: placement: trial: sure_right: expected a number from 0 to 8, found 9");
  EXPECT_EQ(Refusal([](Json& json) { json["centroids"]["layers"] = 3u; }),
            "d.json: placement: centroids: layers: expected a number from 1 to 2, found 3");
  EXPECT_EQ(Refusal([](Json& json) { json["centroids"]["layers"] = 2u; }),
            "d.json: placement: centroids: values: expected 36 bytes, found 18");
}

TEST(PlacementJson, NumbersBeyondTheirLimitsAreRefused) {
  EXPECT_EQ(Refusal([](Json& json) { json["rule"] = "race"; }),
            "d.json: placement: rule: expected \"table\", found \"race\"");
  EXPECT_EQ(Refusal([](Json& json) { json["prefix_tokens"] = 0u; }),
            "d.json: placement: prefix_tokens: expected a number from 1 to 1048576, found 0");
  EXPECT_EQ(Refusal([](Json& json) { json["margin"] = -1; }),
            "d.json: placement: margin: expected a number from 0 to 1e+06, found -1");
  EXPECT_EQ(Refusal([](Json& json) { json["tokens"]["scale"] = 0; }),
            "d.json: placement: tokens: scale: expected a number above 0, found 0");
  EXPECT_EQ(Refusal([](Json& json) { json["tokens"]["scale"] = 1e4; }),
            "d.json: placement: tokens: scale: expected a number from 0 to 1000, found 10000.0");
  EXPECT_EQ(Refusal([](Json& json) { json["tokens"]["count"] = 1u << 21; }),
            "d.json: placement: tokens: count: expected a number from 0 to 1048576, found 2097152");
  EXPECT_EQ(Refusal([](Json& json) { json = Json::array(); }),
            "d.json: placement: expected an object, found an array of 0 values");
}

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
