#include "libshard/recipe/llama_conditions.h"

#include <gmock/gmock.h>

#include <vector>

namespace moepack {
namespace {

using testing::ElementsAre;

// The matrices of 16 that satisfy the condition.
std::vector<uint64_t> Places(const LlamaCondition& condition, const LlamaFacts& facts = {}) {
  std::vector<uint64_t> places;
  for (uint64_t i = 0; i < 16; ++i) {
    if (condition.holds({facts, i, 16})) places.push_back(i);
  }
  return places;
}

bool HoldsFor(const LlamaCondition& condition, const LlamaFacts& facts) {
  return condition.holds({facts});
}

TEST(LlamaConditions, OfPlacesCountFromZero) {
  EXPECT_THAT(Places(when::kNowhere), ElementsAre());
  EXPECT_EQ(Places(when::kEverywhere).size(), 16u);
  EXPECT_THAT(Places(when::kFirstTwo), ElementsAre(0, 1));
  EXPECT_THAT(Places(when::kFirstFour), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Places(when::kFirstSixteenth), ElementsAre(0));
  EXPECT_THAT(Places(when::kFirstEighth), ElementsAre(0, 1));
  EXPECT_THAT(Places(when::kMiddle), ElementsAre(2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13));
  EXPECT_THAT(Places(when::kEndsAndEveryThird), ElementsAre(0, 1, 4, 7, 10, 13, 14, 15));
}

TEST(LlamaConditions, OfPlacesMayAlsoAskForImportanceOrExperts) {
  LlamaFacts facts;
  EXPECT_THAT(Places(when::kFirstEighthImportance, facts), ElementsAre());
  EXPECT_THAT(Places(when::kFirstEighthNoImportance, facts), ElementsAre(0, 1));
  EXPECT_THAT(Places(when::kFirstEighthOrMixtral, facts), ElementsAre(0, 1));
  facts.importance = true;
  facts.expert_count = 8;
  EXPECT_THAT(Places(when::kFirstEighthImportance, facts), ElementsAre(0, 1));
  EXPECT_THAT(Places(when::kFirstEighthNoImportance, facts), ElementsAre());
  EXPECT_EQ(Places(when::kFirstEighthOrMixtral, facts), Places(when::kEndsAndEveryThird));
}

TEST(LlamaConditions, OfModelsAskForExpertsAndQueries) {
  EXPECT_TRUE(HoldsFor(when::kEightExperts, {.expert_count = 8}));
  EXPECT_FALSE(HoldsFor(when::kEightExperts, {.expert_count = 16}));
  EXPECT_TRUE(HoldsFor(when::kFourQueriesPerKey, {.heads = 16, .kv_heads = 4}));
  EXPECT_FALSE(HoldsFor(when::kFourQueriesPerKey, {.heads = 16, .kv_heads = 8}));
  EXPECT_FALSE(HoldsFor(when::kFourQueriesPerKey, {.heads = 16}));
  EXPECT_TRUE(HoldsFor(when::kFourQueriesOrExperts, {.expert_count = 4}));
  EXPECT_TRUE(HoldsFor(when::kFourQueriesOrExperts, {.heads = 16, .kv_heads = 4}));
  EXPECT_FALSE(HoldsFor(when::kFourQueriesOrExperts, {.expert_count = 3}));
}

TEST(LlamaConditions, RecognizeTheLargeLlamaByItsLayersAndHeads) {
  const LlamaFacts large = {.architecture = "llama", .layers = 80, .heads = 64, .kv_heads = 8};
  EXPECT_TRUE(HoldsFor(when::kLlama70b, large));
  LlamaFacts other = large;
  other.architecture = "qwen2";
  EXPECT_FALSE(HoldsFor(when::kLlama70b, other));
  other = large;
  other.layers = 79;
  EXPECT_FALSE(HoldsFor(when::kLlama70b, other));
  other = large;
  other.kv_heads = 64;
  EXPECT_FALSE(HoldsFor(when::kLlama70b, other));
}

}  // namespace
}  // namespace moepack
