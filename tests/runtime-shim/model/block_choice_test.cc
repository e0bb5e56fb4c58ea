#include "runtime-shim/model/block_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace moepack::runtime {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

// One number per key, blocks of two keys, of which two are picked.
constexpr BlockShape kTwoOfTwo = {.heads = 1, .width = 1, .block = 2, .picked = 2, .local = 1};
constexpr float kOne[] = {1};

TEST(BlockChoice, TakesTheBlocksWithTheBestKeysInAscendingOrder) {
  const float keys[] = {0, 1, 9, 0, 2, 3, 0, 0};
  EXPECT_THAT(PickBlocks(kTwoOfTwo, kOne, keys), ElementsAre(1, 3)) << "the last is always seen";
  const float other[] = {0, 1, 4, 0, 2, 7, 0, 0};
  EXPECT_THAT(PickBlocks(kTwoOfTwo, kOne, other), ElementsAre(2, 3));
}

TEST(BlockChoice, SeesEverythingInShortContexts) {
  const float keys[] = {5, 5, -1};
  EXPECT_THAT(PickBlocks(kTwoOfTwo, kOne, keys), ElementsAre(0, 1));
  EXPECT_TRUE(SeesAllBlocks(kTwoOfTwo, 4));
  EXPECT_FALSE(SeesAllBlocks(kTwoOfTwo, 5));
}

TEST(BlockChoice, TakesTheFirstOfEqualBlocks) {
  const float keys[] = {3, 3, 3, 3, 3, 3, 0, 0};
  EXPECT_THAT(PickBlocks(kTwoOfTwo, kOne, keys), ElementsAre(0, 3));
}

TEST(BlockChoice, NeedsNoLocalBlock) {
  BlockShape shape = kTwoOfTwo;
  shape.local = 0;
  const float keys[] = {3, 0, 2, 0, 1, 0};
  EXPECT_THAT(PickBlocks(shape, kOne, keys), ElementsAre(0, 1));
}

// Two heads over three of five keys, the last block being incomplete.
TEST(BlockChoice, AttendsToTheKeysOfTheBlocksAlone) {
  const float queries[] = {1, 2};
  const float keys[] = {9, 9, 1, 2, 3};
  const float values[] = {7, 7, 10, 20, 30};
  const uint32_t blocks[] = {1, 2};
  PickedAttention inputs;
  inputs.queries = queries;
  inputs.keys = keys;
  inputs.values = values;
  inputs.key_stride = inputs.value_stride = inputs.key_width = inputs.value_width = 1;
  inputs.count = 5;
  inputs.scale = 0.5f;
  float out[2];
  AttendToBlocks(inputs, kTwoOfTwo, blocks, out);
  std::vector<float> expected;
  for (const double query : queries) {
    double sum = 0, mixed = 0;
    for (const int key : {2, 3, 4}) {
      const double weight = std::exp(0.5 * query * keys[key]);
      sum += weight;
      mixed += weight * values[key];
    }
    expected.push_back(static_cast<float>(mixed / sum));
  }
  EXPECT_THAT(out, Pointwise(FloatNear(1e-5f), expected));
}

}  // namespace
}  // namespace moepack::runtime
