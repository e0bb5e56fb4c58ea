#include "runtime-shim/model/pooled_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "runtime-shim/model/block_choice.h"

namespace moepack::runtime {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

// One number per key, blocks of two keys, of which two are picked.
constexpr BlockShape kPooledPairs = {
    .heads = 1, .width = 1, .block = 2, .picked = 2, .local = 0, .pooled = true};
constexpr float kQueryOfOne[] = {1};

TEST(PooledBlocks, SeesTheBestBlocksAndTheKeysSinceTheLastOne) {
  const float pooled[] = {5, 1, 3, 2};
  EXPECT_THAT(PickPooled(kPooledPairs, kQueryOfOne, pooled, 9), ElementsAre(0, 1, 4, 5, 8));
}

TEST(PooledBlocks, SeesEverythingInShortContexts) {
  EXPECT_TRUE(SeesAllBlocks(kPooledPairs, 5));
  EXPECT_FALSE(SeesAllBlocks(kPooledPairs, 6));
  EXPECT_THAT(PickPooled(kPooledPairs, kQueryOfOne, std::vector<float>{1, 2}, 5),
              ElementsAre(0, 1, 2, 3, 4));
}

// Without keys since the last block there is room for half of the third best one.
TEST(PooledBlocks, FillsUpWithKeysOfTheNextBlock) {
  const float pooled[] = {3, 1, 5, 4};
  const std::vector<uint32_t> seen = PickPooled(kPooledPairs, kQueryOfOne, pooled, 8);
  ASSERT_EQ(seen.size(), 5u);
  EXPECT_LT(seen[0], 2u) << "of the first block";
  EXPECT_THAT(std::vector<uint32_t>(seen.begin() + 1, seen.end()), ElementsAre(4, 5, 6, 7));
}

TEST(PooledBlocks, ScoresBySumsOverHeadsWithoutNegativeProducts) {
  BlockShape shape = kPooledPairs;
  shape.heads = 2;
  shape.picked = 1;
  const float query[] = {1, -1};  // so a key's score is its magnitude
  const float pooled[] = {2, -3, 1};
  EXPECT_THAT(PickPooled(shape, query, pooled, 7), ElementsAre(2, 3, 6));
}

TEST(PooledBlocks, PoolsByTheMeanBeforeNormAndRotation) {
  BlockShape shape = kPooledPairs;
  shape.width = 3;
  const float keys[] = {1, 4, 0, 5, 4, 0};  // the mean is 3, 4, 0
  const float norm[] = {1, 1, 2};
  const float quarter[] = {0, 1};  // the cosine and sine of a right angle
  const float root = std::sqrt(25 / 3.0f);
  std::vector<float> key(3);
  PoolKeys(shape, {norm, 0, Pairing::kHalves, {}}, keys, key);
  EXPECT_THAT(key, Pointwise(FloatNear(1e-6f), std::vector<float>{3 / root, 4 / root, 0}));
  PoolKeys(shape, {norm, 0, Pairing::kHalves, quarter}, keys, key);
  EXPECT_THAT(key, Pointwise(FloatNear(1e-6f), std::vector<float>{-4 / root, 3 / root, 0}));
}

TEST(PooledBlocks, RotatesHalvesOrNeighbours) {
  BlockShape shape = kPooledPairs;
  shape.width = 4;
  shape.block = 1;
  const float keys[] = {1, 1, -1, -1}, norm[] = {1, 2, 3, 4};
  const float turns[] = {0, 1, 1, 0};  // the first pair by a right angle, the second not at all
  std::vector<float> key(4);
  PoolKeys(shape, {norm, 0, Pairing::kHalves, turns}, keys, key);
  EXPECT_THAT(key, Pointwise(FloatNear(1e-6f), std::vector<float>{3, 2, 1, -4}));
  PoolKeys(shape, {norm, 0, Pairing::kNeighbours, turns}, keys, key);
  EXPECT_THAT(key, Pointwise(FloatNear(1e-6f), std::vector<float>{-2, 1, -3, -4}));
}

}  // namespace
}  // namespace moepack::runtime
