#include "runtime-shim/model/short_convolution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moepack::runtime {
namespace {

using testing::ElementsAre;

// One channel over three tokens: c * (k0 b0 x0 + k1 b1 x1 + k2 b2 x2), the latest last.
TEST(ShortConvolution, MixesTheLastTokensAndMultipliesTheResult) {
  const ConvolutionShape shape = {.width = 1, .kernel = 3};
  const float kernel[] = {100, 10, 1};
  RecurrentState state;
  state.Clear(shape.state());
  const auto step = [&](float b, float c, float x) {
    const float projected[] = {b, c, x};
    float out[1];
    StepConvolution(shape, kernel, projected, state, out);
    return out[0];
  };
  EXPECT_EQ(step(2, 1, 3), 6);
  EXPECT_EQ(step(1, 2, 5), 2 * (60 + 5));
  EXPECT_EQ(step(1, -1, 7), -(600 + 50 + 7));
  EXPECT_EQ(step(0, 1, 7), 500 + 70);
  EXPECT_EQ(state.length, 4u);
}

TEST(ShortConvolution, ChannelsAreIndependent) {
  const ConvolutionShape shape = {.width = 2, .kernel = 2};
  const float kernel[] = {10, 1, 0, 1};  // the second channel sees only the token itself
  RecurrentState state;
  state.Clear(shape.state());
  float out[2];
  const float first[] = {1, 1, 1, 1, 2, 3}, second[] = {1, 2, 1, 3, 5, 7};
  StepConvolution(shape, kernel, first, state, out);
  EXPECT_THAT(out, ElementsAre(2, 3));
  StepConvolution(shape, kernel, second, state, out);
  EXPECT_THAT(out, ElementsAre(20 + 5, 3 * 2 * 7));
}

}  // namespace
}  // namespace moepack::runtime
