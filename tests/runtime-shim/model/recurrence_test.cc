#include "runtime-shim/model/recurrence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moepack::runtime {
namespace {

using testing::ElementsAre;

TEST(Recurrence, ConvolvesEachChannelOverPreviousTokensAndMovesTheWindow) {
  const RecurrentShape shape{.kernel = 3, .channels = 2, .memory = 4};
  const std::vector<float> kernel = {1, 10, 100, 2, 20, 200}, bias = {0, 1};
  RecurrentState state;
  state.Clear(shape);
  EXPECT_EQ(state.window.size(), 4u);
  EXPECT_THAT(state.memory, ElementsAre(0, 0, 0, 0));
  const std::vector<float> first = {1, 2}, second = {3, 4}, third = {5, 6};
  Convolve(shape, {kernel, bias}, first, state);
  Convolve(shape, {kernel, bias}, second, state);
  EXPECT_THAT(state.window, ElementsAre(1, 2, 3, 4));
  // 1 x 1 + 3 x 10 + 5 x 100, and 2 x 2 + 4 x 20 + 6 x 200 + 1: silu leaves large numbers.
  EXPECT_THAT(Convolve(shape, {kernel, bias}, third, state), ElementsAre(531, 1285));
  EXPECT_THAT(state.window, ElementsAre(3, 4, 5, 6));
}

TEST(Recurrence, AddsNothingWithoutABias) {
  const RecurrentShape shape{.kernel = 1, .channels = 1, .memory = 0};
  const std::vector<float> kernel = {2}, token = {50};
  RecurrentState state;
  state.Clear(shape);
  EXPECT_THAT(Convolve(shape, {kernel, {}}, token, state), ElementsAre(100));
}

TEST(Recurrence, SoftplusReturnsLargeArgumentsUnchanged) {
  EXPECT_EQ(Softplus(21), 21);
  EXPECT_NEAR(Softplus(0), 0.6931472f, 1e-6f);
}

}  // namespace
}  // namespace moepack::runtime
