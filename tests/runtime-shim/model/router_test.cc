#include "runtime-shim/model/router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace moepack::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::HasSubstr;

constexpr Gating kGatings[] = {Gating::kSoftmax, Gating::kSigmoid, Gating::kSoftmaxAfterTopK,
                               Gating::kSigmoidAfterTopK, Gating::kSqrtSoftplus};

Routing Spec(uint32_t experts, uint32_t top_k, Gating gating, bool normalize) {
  Routing spec;
  spec.expert_count = experts;
  spec.top_k = top_k;
  spec.gating = gating;
  spec.normalize = normalize;
  return spec;
}

ExpertIds All(uint32_t experts) {
  ExpertIds ids(experts);
  std::iota(ids.begin(), ids.end(), 0u);
  return ids;
}

std::vector<float> Pick(const std::vector<float>& values, const ExpertIds& ids) {
  std::vector<float> out;
  for (const uint32_t id : ids) out.push_back(values[id]);
  return out;
}

class RandomRouter {
 public:
  explicit RandomRouter(uint32_t seed) : random_(seed) {}
  std::vector<float> Values(size_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = normal_(random_);
    return values;
  }
  ExpertIds Subset(uint32_t experts, size_t count) {
    ExpertIds ids = All(experts);
    std::shuffle(ids.begin(), ids.end(), random_);
    ids.resize(count);
    std::sort(ids.begin(), ids.end());
    return ids;
  }

 private:
  std::mt19937 random_;
  std::normal_distribution<float> normal_{0, 2};
};

std::string ErrorText(const Routing& spec, const std::vector<float>& logits,
                      const ExpertIds& eligible, const std::vector<float>& bias = {}) {
  const auto chosen = SelectExperts(logits, bias, spec, eligible);
  if (chosen) return "accepted";
  EXPECT_EQ(chosen.error().code, Code::kInvalidArgument);
  return chosen.error().message;
}

// The definition of the project: a node's router is the whole router without the rows of the absent
// experts.
TEST(SelectExperts, MaskingEqualsRemovingRowsForEveryGate) {
  RandomRouter random(1);
  for (Gating gating : kGatings) {
    for (int round = 0; round < 200; ++round) {
      Routing spec = Spec(24, 4, gating, round % 2 == 0);
      const std::vector<float> logits = random.Values(24);
      const std::vector<float> bias = round % 3 == 0 ? random.Values(24) : std::vector<float>{};
      const ExpertIds eligible = random.Subset(24, 4 + static_cast<size_t>(round % 20));
      const Selection masked = SelectExperts(logits, bias, spec, eligible).value();

      spec.expert_count = static_cast<uint32_t>(eligible.size());
      const std::vector<float> kept_bias = bias.empty() ? bias : Pick(bias, eligible);
      Selection removed =
          SelectExperts(Pick(logits, eligible), kept_bias, spec, All(spec.expert_count)).value();
      for (uint32_t& id : removed.ids) id = eligible[id];
      EXPECT_EQ(masked.ids, removed.ids) << GatingName(gating);
      EXPECT_EQ(masked.weights, removed.weights) << GatingName(gating);
    }
  }
}

TEST(SelectExperts, MaskingEqualsRemovingRowsForWholeRoutingGroups) {
  RandomRouter random(2);
  for (int round = 0; round < 200; ++round) {
    Routing spec = Spec(32, 4, Gating::kSigmoid, true);
    spec.groups = 8;
    spec.groups_used = 3;
    const std::vector<float> logits = random.Values(32), bias = random.Values(32);
    ExpertIds eligible;  // four of the eight groups
    for (const uint32_t group : random.Subset(8, 4)) {
      for (uint32_t i = 0; i < 4; ++i) eligible.push_back(group * 4 + i);
    }
    const Selection masked = SelectExperts(logits, bias, spec, eligible).value();
    spec.expert_count = 16;
    spec.groups = 4;
    Selection removed =
        SelectExperts(Pick(logits, eligible), Pick(bias, eligible), spec, All(16)).value();
    for (uint32_t& id : removed.ids) id = eligible[id];
    EXPECT_EQ(masked.ids, removed.ids);
    EXPECT_EQ(masked.weights, removed.weights);
  }
}

// Weights of the whole router's softmax, used unchanged by a node: the same experts, with weights
// smaller by the probability mass that the node lacks; the same again after normalisation.
TEST(SelectExperts, MaskingAfterAFullSoftmaxDiffersUnlessNormalised) {
  RandomRouter random(3);
  for (int round = 0; round < 100; ++round) {
    const std::vector<float> logits = random.Values(16);
    const ExpertIds eligible = random.Subset(16, 8);
    const Selection full =
        SelectExperts(logits, {}, Spec(16, 16, Gating::kSoftmax, false), All(16)).value();
    std::vector<float> probability(16);
    for (size_t i = 0; i < 16; ++i) probability[full.ids[i]] = full.weights[i];
    const std::vector<float> kept = Pick(probability, eligible);
    const float mass = std::accumulate(kept.begin(), kept.end(), 0.0f);

    const Selection plain =
        SelectExperts(logits, {}, Spec(16, 3, Gating::kSoftmax, false), eligible).value();
    const Selection normalised =
        SelectExperts(logits, {}, Spec(16, 3, Gating::kSoftmax, true), eligible).value();
    const std::vector<float> chosen = Pick(probability, plain.ids);
    const float sum = std::accumulate(chosen.begin(), chosen.end(), 0.0f);
    ASSERT_LT(mass, 0.999f);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(plain.weights[i], chosen[i] / mass, 1e-5);
      EXPECT_GT(plain.weights[i], chosen[i]);
      EXPECT_NEAR(normalised.weights[i], chosen[i] / sum, 1e-4);
    }
  }
}

TEST(SelectExperts, GivesTheWeightsOfEachGate) {
  const std::vector<float> logits = {0, 2, 1};
  const auto weights = [&](Gating gating, bool normalize) {
    return SelectExperts(logits, {}, Spec(3, 2, gating, normalize), All(3)).value().weights;
  };
  const float all = 1 + std::exp(1.0f) + std::exp(2.0f);
  EXPECT_THAT(weights(Gating::kSoftmax, false),
              ElementsAre(FloatEq(std::exp(2.0f) / all), FloatEq(std::exp(1.0f) / all)));
  EXPECT_THAT(weights(Gating::kSoftmax, true),
              ElementsAre(FloatEq(0.7310586f), FloatEq(0.26894142f)));
  EXPECT_THAT(weights(Gating::kSoftmaxAfterTopK, false),
              ElementsAre(FloatEq(0.7310586f), FloatEq(0.26894142f)));
  EXPECT_THAT(weights(Gating::kSigmoid, false),
              ElementsAre(FloatEq(0.880797f), FloatEq(0.7310586f)));
  EXPECT_THAT(weights(Gating::kSigmoidAfterTopK, false),
              ElementsAre(FloatEq(0.880797f), FloatEq(0.7310586f)));
  EXPECT_THAT(weights(Gating::kSqrtSoftplus, false),
              ElementsAre(FloatEq(std::sqrt(std::log1p(std::exp(2.0f)))),
                          FloatEq(std::sqrt(std::log1p(std::exp(1.0f))))));
}

TEST(SelectExperts, HandlesLogitsAtTheLimitsOfFloat) {
  const std::vector<float> logits = {-3e38f, 3e38f, 80, -80};
  for (Gating gating : kGatings) {
    const Selection chosen = SelectExperts(logits, {}, Spec(4, 2, gating, true), All(4)).value();
    EXPECT_EQ(chosen.ids[0], 1u) << GatingName(gating);
    for (const float weight : chosen.weights)
      EXPECT_TRUE(std::isfinite(weight)) << GatingName(gating);
  }
}

TEST(SelectExperts, UsesTheSelectionBiasToChooseButNotToWeigh) {
  const std::vector<float> logits = {2, 1, 0, -1};
  const std::vector<float> bias = {0, 0, 0, 5};
  const Selection chosen =
      SelectExperts(logits, bias, Spec(4, 2, Gating::kSigmoid, false), All(4)).value();
  EXPECT_THAT(chosen.ids, ElementsAre(3, 0));
  EXPECT_THAT(chosen.weights, ElementsAre(FloatEq(0.26894142f), FloatEq(0.880797f)));
}

TEST(SelectExperts, NeverChoosesAMaskedExpertForItsBias) {
  const std::vector<float> logits = {2, 1, 0, -1};
  const std::vector<float> bias = {1000, -1000, -1000, -1000};
  for (Gating gating : kGatings) {
    const Selection chosen =
        SelectExperts(logits, bias, Spec(4, 2, gating, true), {1, 2, 3}).value();
    EXPECT_THAT(chosen.ids, ElementsAre(1, 2)) << GatingName(gating);
  }
}

TEST(SelectExperts, GivesTiesToTheLowerId) {
  const std::vector<float> logits = {1, 3, 3, 1, 3};
  EXPECT_THAT(SelectExperts(logits, {}, Spec(5, 4, Gating::kSoftmax, true), All(5)).value().ids,
              ElementsAre(1, 2, 4, 0));
}

TEST(SelectExperts, ScoresRoutingGroupsByTheirTwoBest) {
  // Group 1 has the best expert, groups 0 and 2 the better pairs.
  const std::vector<float> logits = {3, 3, 0, 5, -5, -5, 3, 2, 4};
  Routing spec = Spec(9, 2, Gating::kSoftmaxAfterTopK, true);
  spec.groups = 3;
  spec.groups_used = 1;
  EXPECT_THAT(SelectExperts(logits, {}, spec, All(9)).value().ids, ElementsAre(8, 6));
  spec.groups_used = 2;
  EXPECT_THAT(SelectExperts(logits, {}, spec, All(9)).value().ids, ElementsAre(8, 0));
  spec.groups_used = 3;
  EXPECT_THAT(SelectExperts(logits, {}, spec, All(9)).value().ids, ElementsAre(3, 8));
}

TEST(SelectExperts, ScoresRoutingGroupsByTheirBestWhereTheModelDoes) {
  const std::vector<float> logits = {3, 3, 0, 5, -5, -5, 3, 2, 4};
  Routing spec = Spec(9, 1, Gating::kSoftmaxAfterTopK, true);
  spec.groups = 3;
  spec.groups_used = 1;
  EXPECT_THAT(SelectExperts(logits, {}, spec, All(9)).value().ids, ElementsAre(8));
  spec.group_score = GroupScore::kBest;
  EXPECT_THAT(SelectExperts(logits, {}, spec, All(9)).value().ids, ElementsAre(3));
}

TEST(SelectExperts, GivesTiesOfRoutingGroupsToTheLowerGroup) {
  const std::vector<float> logits = {0, 1, 1, 0, 1, 1};
  Routing spec = Spec(6, 1, Gating::kSoftmax, true);
  spec.groups = 3;
  spec.groups_used = 1;
  const std::vector<float> even = {1, 1, 1, 1, 1, 1};
  EXPECT_THAT(SelectExperts(even, {}, spec, All(6)).value().ids, ElementsAre(0));
  EXPECT_THAT(SelectExperts(logits, {}, spec, All(6)).value().ids, ElementsAre(4));
}

TEST(SelectExperts, MasksBeforeScoringRoutingGroups) {
  const std::vector<float> logits = {9, 9, 1, 1, 2, 2};
  Routing spec = Spec(6, 2, Gating::kSoftmax, true);
  spec.groups = 3;
  spec.groups_used = 1;
  EXPECT_THAT(SelectExperts(logits, {}, spec, All(6)).value().ids, ElementsAre(0, 1));
  EXPECT_THAT(SelectExperts(logits, {}, spec, {0, 2, 3, 4, 5}).value().ids, ElementsAre(4, 5));
}

TEST(SelectExperts, RefusesRoutingGroupsThatHoldTooFewEligibleExperts) {
  Routing spec = Spec(6, 2, Gating::kSoftmax, true);
  spec.groups = 3;
  spec.groups_used = 1;
  EXPECT_THAT(ErrorText(spec, {1, 2, 3, 4, 5, 6}, {0, 2, 4}),
              HasSubstr("in the chosen routing groups: expected at least 2, found 1"));
}

TEST(SelectExperts, DoesNotDivideByLessThanTheMinimum) {
  const std::vector<float> logits = {-30, -31, -32};
  const Selection chosen =
      SelectExperts(logits, {}, Spec(3, 2, Gating::kSigmoid, true), All(3)).value();
  EXPECT_FLOAT_EQ(chosen.weights[0], 1 / (1 + std::exp(30.0f)) / 6.103515625e-5f);
}

TEST(SelectExperts, ScalesTheWeightsLast) {
  const std::vector<float> logits = {1, 1, 0};
  Routing spec = Spec(3, 2, Gating::kSigmoid, true);
  const auto weights = [&](float scale) {
    spec.scale = scale;
    return SelectExperts(logits, {}, spec, All(3)).value().weights;
  };
  EXPECT_THAT(weights(2.5f), ElementsAre(FloatEq(1.25f), FloatEq(1.25f)));
  EXPECT_THAT(weights(1), ElementsAre(FloatEq(0.5f), FloatEq(0.5f)));
  EXPECT_THAT(weights(0), ElementsAre(FloatEq(0.5f), FloatEq(0.5f)));
}

TEST(SelectExperts, RefusesFewerEligibleExpertsThanTopK) {
  EXPECT_THAT(ErrorText(Spec(4, 3, Gating::kSoftmax, true), {1, 2, 3, 4}, {0, 2}),
              HasSubstr("router: eligible experts: expected at least 3, found 2"));
}

TEST(SelectExperts, RefusesInputsThatDoNotFit) {
  const Routing spec = Spec(4, 2, Gating::kSoftmax, true);
  const std::vector<float> logits = {1, 2, 3, 4};
  EXPECT_THAT(ErrorText(spec, {1, 2, 3}, All(4)), HasSubstr("logits: expected 4, found 3"));
  EXPECT_THAT(ErrorText(spec, logits, All(4), {1}), HasSubstr("selection bias: expected 4"));
  EXPECT_THAT(ErrorText(spec, logits, {0, 4}), HasSubstr("ids below 4, found 4"));
  EXPECT_THAT(ErrorText(spec, logits, {2, 1}), HasSubstr("ascending ids"));
  EXPECT_THAT(ErrorText(spec, logits, {1, 1}), HasSubstr("ascending ids"));
  EXPECT_THAT(ErrorText(spec, {1, 2, 3, std::nanf("")}, All(4)), HasSubstr("finite numbers"));
  EXPECT_THAT(ErrorText(spec, {1, 2, 3, std::numeric_limits<float>::infinity()}, All(4)),
              HasSubstr("finite numbers"));
}

TEST(SelectExperts, RefusesInvalidSpecs) {
  const std::vector<float> logits = {1, 2, 3, 4};
  EXPECT_THAT(ErrorText(Spec(4, 0, Gating::kSoftmax, true), logits, All(4)),
              HasSubstr("at least 1"));
  Routing spec = Spec(4, 2, Gating::kSoftmax, true);
  spec.groups = 3;
  spec.groups_used = 1;
  EXPECT_THAT(ErrorText(spec, logits, All(4)), HasSubstr("groups of equal size"));
  spec.groups = 4;
  EXPECT_THAT(ErrorText(spec, logits, All(4)), HasSubstr("at least 2"));
  spec.groups = 2;
  spec.groups_used = 3;
  EXPECT_THAT(ErrorText(spec, logits, All(4)), HasSubstr("expected 1 to 2, found 3"));
  spec.groups_used = 0;
  EXPECT_THAT(ErrorText(spec, logits, All(4)), HasSubstr("expected 1 to 2, found 0"));
}

TEST(WeighExperts, KeepsTheOrderOfTheIdsWhateverTheLogits) {
  const std::vector<float> logits = {5, 0, 2, 1};
  const Routing spec = Spec(4, 2, Gating::kSigmoid, false);
  const Selection chosen = WeighExperts(logits, std::vector<uint32_t>{3, 1}, spec, All(4)).value();
  EXPECT_THAT(chosen.ids, ElementsAre(3, 1));
  EXPECT_THAT(chosen.weights, ElementsAre(FloatEq(0.7310586f), FloatEq(0.5f)));
}

// The weights of what a router would choose are those that it gives them.
TEST(WeighExperts, WeighsAsARouterDoes) {
  RandomRouter random(5);
  for (const Gating gating : kGatings) {
    for (const bool normalize : {false, true}) {
      Routing spec = Spec(16, 4, gating, normalize);
      spec.scale = 1.5;
      const std::vector<float> logits = random.Values(16);
      const ExpertIds eligible = random.Subset(16, 9);
      const Selection own = SelectExperts(logits, {}, spec, eligible).value();
      const Selection weighed = WeighExperts(logits, own.ids, spec, eligible).value();
      EXPECT_EQ(weighed.ids, own.ids) << GatingName(gating);
      EXPECT_EQ(weighed.weights, own.weights) << GatingName(gating);
    }
  }
}

TEST(WeighExperts, RefusesIdsThatAreNotEligibleOrTooFew) {
  const std::vector<float> logits = {5, 0, 2, 1};
  const Routing spec = Spec(4, 2, Gating::kSigmoid, false);
  EXPECT_THAT(WeighExperts(logits, std::vector<uint32_t>{3, 1}, spec, {0, 2, 3}).error().message,
              HasSubstr("chosen expert: expected an eligible one, found 1"));
  EXPECT_THAT(WeighExperts(logits, std::vector<uint32_t>{3}, spec, All(4)).error().message,
              HasSubstr("chosen experts: expected 2, found 1"));
}

}  // namespace
}  // namespace moepack::runtime
