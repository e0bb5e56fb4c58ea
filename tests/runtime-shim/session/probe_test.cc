#include "runtime-shim/session/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/runtime-shim/fake_session.h"

namespace moepack::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Routing Spec(Gating gating, uint32_t experts = 4, uint32_t top_k = 2) {
  Routing spec;
  spec.expert_count = experts;
  spec.top_k = top_k;
  spec.gating = gating;
  return spec;
}

// Softmax gives 0.5, 0.3, 0.15, 0.05.
const std::vector<float> kLogits = {std::log(0.5f), std::log(0.3f), std::log(0.15f),
                                    std::log(0.05f)};

std::vector<double> Shares(const Routing& spec, const std::vector<ExpertIds>& eligible,
                           const std::vector<float>& bias = {}) {
  const auto shares = GateShares(kLogits, bias, spec, eligible);
  EXPECT_TRUE(shares) << shares.error().message;
  return shares ? *shares : std::vector<double>();
}

TEST(GateShares, IsOneForANodeThatHoldsTheChosenExperts) {
  EXPECT_THAT(Shares(Spec(Gating::kSoftmax), {{0, 1}, {0, 1, 2, 3}, {0, 1, 3}}),
              ElementsAre(1, 1, 1));
}

TEST(GateShares, IsTheGateMassOfTheBestExpertsThatANodeHolds) {
  const std::vector<double> shares = Shares(Spec(Gating::kSoftmax), {{2, 3}, {1, 2, 3}});
  EXPECT_NEAR(shares[0], 0.20 / 0.80, 1e-6);
  EXPECT_NEAR(shares[1], 0.45 / 0.80, 1e-6);
}

TEST(GateShares, DoesNotDependOnNormalisationOrScale) {
  Routing spec = Spec(Gating::kSoftmax);
  spec.normalize = false;
  spec.scale = 2.5f;
  EXPECT_EQ(Shares(spec, {{2, 3}}), Shares(Spec(Gating::kSoftmax), {{2, 3}}));
}

TEST(GateShares, UsesTheSoftmaxOverAllExpertsForGatesAfterTopK) {
  EXPECT_NEAR(Shares(Spec(Gating::kSoftmaxAfterTopK), {{2, 3}})[0], 0.25, 1e-6);
}

TEST(GateShares, AddsUpSigmoidGatesAsTheyAre) {
  const auto sigmoid = [](float x) { return 1 / (1 + std::exp(-x)); };
  const double expected =
      (sigmoid(kLogits[2]) + sigmoid(kLogits[3])) / (sigmoid(kLogits[0]) + sigmoid(kLogits[1]));
  EXPECT_NEAR(Shares(Spec(Gating::kSigmoid), {{2, 3}})[0], expected, 1e-6);
}

TEST(GateShares, ASelectionBiasAffectsTheChoiceButNotTheMass) {
  // The router wants expert 3, despite its small gate.
  const std::vector<float> bias = {0, 0, 0, 1};
  const std::vector<double> shares = Shares(Spec(Gating::kSoftmax), {{0, 3}, {1, 2}, {0, 1}}, bias);
  EXPECT_NEAR(shares[0], 1, 1e-6);
  EXPECT_NEAR(shares[1], 0.45 / 0.55, 1e-6);
  EXPECT_EQ(shares[2], 1) << "0.8 / 0.55 counts as 1";
}

TEST(GateShares, ANodeWithTooLittleOfTheChosenRoutingGroupsScoresZero) {
  Routing spec = Spec(Gating::kSigmoid);
  spec.groups = 2;
  spec.groups_used = 1;
  EXPECT_THAT(Shares(spec, {{0, 1, 2}, {0, 2}}), ElementsAre(1, 0));
}

TEST(GateShares, TooFewExpertsAreRefused) {
  const auto shares = GateShares(kLogits, {}, Spec(Gating::kSoftmax), {{0, 1}, {2}});
  ASSERT_FALSE(shares);
  EXPECT_EQ(shares.error().code, Code::kInvalidArgument);
  EXPECT_THAT(shares.error().message, HasSubstr("expected at least 2, found 1"));
}

// Layers 1, 2 and 4 of 5 have experts; 5 is a block that does not run.
FakeModel ModelWithExperts() {
  FakeModel model;
  model.spec_.layers = 5;
  model.spec_.layer.resize(5);
  for (const uint32_t layer : {1u, 2u, 4u})
    model.spec_.layer[layer].router = Spec(Gating::kSoftmax);
  model.weights_.moe_layers = {{1, 4}, {2, 4}, {4, 4}, {5, 4}};
  return model;
}

const std::vector<LayerExperts> kGroups = {{{1, {0, 1}}, {2, {0, 1}}, {4, {2, 3}}},
                                           {{1, {2, 3}}, {2, {2, 3}}, {4, {0, 1}}}};

void Show(GroupScores& scores, uint32_t layer, uint32_t position, uint32_t tokens) {
  std::vector<float> logits;
  for (uint32_t token = 0; token < tokens; ++token)
    logits.insert(logits.end(), kLogits.begin(), kLogits.end());
  RoutedBatch batch;
  batch.layer = layer;
  batch.first_position = position;
  batch.tokens = tokens;
  batch.expert_count = 4;
  batch.logits = logits;
  scores.Observe(batch);
}

TEST(GroupScores, IsTheMeanOverLayersAndPositionsAfterTheFirst) {
  const FakeModel model = ModelWithExperts();
  GroupScores scores(model, kGroups, 0);
  for (const uint32_t layer : {1u, 2u, 4u}) Show(scores, layer, 0, 3);
  for (const uint32_t layer : {1u, 2u, 4u}) Show(scores, layer, 3, 1);
  const auto means = scores.Scores();
  ASSERT_TRUE(means);
  EXPECT_NEAR((*means)[0], (1 + 1 + 0.25) / 3, 1e-6);
  EXPECT_NEAR((*means)[1], (0.25 + 0.25 + 1) / 3, 1e-6);
  EXPECT_EQ(scores.layers(), 5u);
}

TEST(GroupScores, CountsOnlyTheFirstLayersOnRequest) {
  const FakeModel model = ModelWithExperts();
  GroupScores scores(model, kGroups, 2);
  EXPECT_EQ(scores.layers(), 3u);
  for (const uint32_t layer : {1u, 2u, 4u}) Show(scores, layer, 1, 2);
  const auto means = scores.Scores();
  ASSERT_TRUE(means);
  EXPECT_NEAR((*means)[0], 1, 1e-6);
  EXPECT_NEAR((*means)[1], 0.25, 1e-6);
}

TEST(GroupScores, OneTokenIsTooFew) {
  const FakeModel model = ModelWithExperts();
  GroupScores scores(model, kGroups, 0);
  Show(scores, 1, 0, 1);
  const auto means = scores.Scores();
  ASSERT_FALSE(means);
  EXPECT_THAT(means.error().message, HasSubstr("expected at least 2 tokens, found 1"));
}

TEST(GroupScores, ReportsAnErrorDuringTheRunAtTheEnd) {
  const FakeModel model = ModelWithExperts();
  GroupScores scores(model, {{{1, {0}}}}, 1);
  Show(scores, 1, 1, 1);
  const auto means = scores.Scores();
  ASSERT_FALSE(means);
  EXPECT_THAT(means.error().message, HasSubstr("expected at least 2, found 1"));
}

}  // namespace
}  // namespace moepack::runtime
