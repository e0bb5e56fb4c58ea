#include "runtime-shim/model/indexer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace moepack::runtime {
namespace {

using testing::ElementsAre;
using testing::FloatNear;

constexpr IndexerShape kShape = {.heads = 2, .width = 4, .top_k = 2, .dims = 2};

TEST(Indexer, RotatesTheFirstPairsOfEveryHead) {
  const float turns[] = {0, 1};  // a quarter turn
  float heads[] = {1, 2, 3, 4, 5, 6, 7, 8};
  RotateIndex(kShape, turns, heads);
  EXPECT_THAT(heads, ElementsAre(-2, 1, 3, 4, -6, 5, 7, 8));
}

TEST(Indexer, KeysLoseTheirMeanAndAreRotatedAfterTheNorm) {
  const IndexerConstants constants = {{1, 1, 1, 2}, {0, 0, 1, 0}};
  const float turns[] = {0, 1};
  float key[] = {1, 3, 1, 3};  // mean 2, variance 1
  FinishIndexKey(kShape, constants, turns, key);
  EXPECT_THAT(key, ElementsAre(FloatNear(-1, 1e-5f), FloatNear(-1, 1e-5f), FloatNear(0, 1e-5f),
                               FloatNear(2, 1e-5f)));
}

TEST(Indexer, PicksThePositionsWithTheHighestWeightedScores) {
  // The first head looks for the first value, the second for the third.
  const float heads[] = {1, 0, 0, 0, 0, 0, 1, 0};
  const float keys[] = {4, 0, 0, 0, 0, 0, 3, 0, -9, 0, 2, 0, 1, 0, 1, 0};
  const auto pick = [&](float first, float second) {
    const float weights[] = {first, second};
    return PickPositions(kShape, {heads, weights}, keys);
  };
  EXPECT_THAT(pick(1, 0), ElementsAre(0u, 3u));
  EXPECT_THAT(pick(0, 1), ElementsAre(1u, 2u)) << "a product below zero costs nothing";
  EXPECT_THAT(pick(1, 1), ElementsAre(0u, 1u));
  EXPECT_THAT(pick(-1, 0), ElementsAre(1u, 2u));
  EXPECT_THAT(pick(0, 0), ElementsAre(0u, 1u)) << "of equal scores the first";
}

TEST(Indexer, PicksAllOfFewPositions) {
  const float heads[] = {1, 0, 0, 0, 0, 0, 1, 0}, weights[] = {1, 1}, key[] = {1, 2, 3, 4};
  EXPECT_THAT(PickPositions(kShape, {heads, weights}, key), ElementsAre(0u));
}

}  // namespace
}  // namespace moepack::runtime
