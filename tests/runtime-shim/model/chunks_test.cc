#include "runtime-shim/model/chunks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace moepack::runtime {
namespace {

using testing::ElementsAre;
using testing::FloatNear;

// Softmax of these: 1/10, 2/10, 3/10, 4/10.
const std::vector<float> kLogits = {std::log(1.0f), std::log(2.0f), std::log(3.0f), std::log(4.0f)};
const ExpertIds kAll = {0, 1, 2, 3};

TEST(Chunks, AreWeighedByTheExpertOfTheirOwnNumber) {
  // Experts 3 and 0 are in chunks 1 and 0, which have the gates of experts 1 and 0: 2 and 1 of 3.
  const Selection chunks = ChunksOf(kLogits, kAll, {{3, 0}, {0.8f, 0.2f}}, 2);
  EXPECT_THAT(chunks.ids, ElementsAre(0, 1));
  EXPECT_THAT(chunks.weights, ElementsAre(FloatNear(1 / 3.0f, 1e-6f), FloatNear(2 / 3.0f, 1e-6f)));
}

TEST(Chunks, OneThatTwoExpertsBringAlongCountsTwice) {
  const Selection chunks = ChunksOf(kLogits, kAll, {{3, 2}, {0.6f, 0.4f}}, 2);
  EXPECT_THAT(chunks.ids, ElementsAre(1));
  EXPECT_THAT(chunks.weights, ElementsAre(FloatNear(1, 1e-6f)));
}

TEST(Chunks, ExpertsThatAreNotEligibleHaveNoGate) {
  // Without expert 0, chunk 0 has no weight.
  const Selection chunks = ChunksOf(kLogits, {1, 2, 3}, {{3, 1}, {0.7f, 0.3f}}, 2);
  EXPECT_THAT(chunks.ids, ElementsAre(0, 1));
  EXPECT_THAT(chunks.weights, ElementsAre(0, FloatNear(1, 1e-6f)));
}

TEST(Chunks, AreNoMoreThanThereAre) {
  const Selection chunks = ChunksOf(kLogits, kAll, {{3, 2, 1}, {0.5f, 0.3f, 0.2f}}, 2);
  EXPECT_THAT(chunks.ids, ElementsAre(1));
}

}  // namespace
}  // namespace moepack::runtime
