#include "runtime-shim/model/mamba.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moepack::runtime {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

float SiluFor(float x) { return x / (1 + std::exp(-x)); }

// One head of two values with a state of one number each, and a convolution that sees only the
// latest token. The norm divides by the root of the mean square.
struct SmallMamba {
  MambaShape shape{.heads = 1, .width = 2, .groups = 1, .size = 1, .kernel = 1};
  MambaConstants constants{.kernel = {1, 1, 1, 1},
                           .kernel_bias = {},
                           .step_bias = {0},
                           .decay = {-1},
                           .skip = {0},
                           .norm = {1, 1},
                           .eps = 0};
  RecurrentState state;

  SmallMamba() { state.Clear(shape.state()); }
  // `channels` are x, then B and C.
  std::vector<float> Step(const std::vector<float>& channels, float step, float gate = 1) {
    std::vector<float> projected = {gate, gate};
    projected.insert(projected.end(), channels.begin(), channels.end());
    projected.push_back(step);
    std::vector<float> out(2);
    StepMamba(shape, constants, projected, state, out);
    return out;
  }
};

TEST(Mamba, WritesTheInputTimesTheStepAndReadsItBack) {
  SmallMamba mamba;
  const std::vector<float> out = mamba.Step({30, 40, 50, 60}, 25);  // softplus(25) is 25
  EXPECT_THAT(mamba.state.memory, ElementsAre(30 * 25 * 50, 40 * 25 * 50));
  EXPECT_EQ(mamba.state.length, 1u);
  const float root = std::sqrt((30.0f * 30 + 40 * 40) / 2);
  EXPECT_THAT(out, Pointwise(FloatNear(1e-5f), std::vector<float>{30 / root, 40 / root}));
}

TEST(Mamba, DecaysTheMemoryByStepTimesDecay) {
  SmallMamba mamba;
  mamba.Step({30, 40, 50, 60}, 25);
  mamba.Step({0, 0, 50, 60}, 0);  // softplus(0) is ln 2, and exp(-ln 2) a half
  EXPECT_THAT(mamba.state.memory,
              Pointwise(FloatNear(0.1f), std::vector<float>{30 * 25 * 25, 40 * 25 * 25}));
}

TEST(Mamba, TheSkipAddsTheInputAndTheGateMultipliesBeforeTheNorm) {
  SmallMamba mamba;
  mamba.constants.skip = {2};
  mamba.constants.eps = 1;  // makes the norm reveal the gate
  const std::vector<float> out = mamba.Step({30, 40, 0, 60}, 25, 3);
  const float gate = SiluFor(3), one = 60 * gate, other = 80 * gate;
  const float root = std::sqrt((one * one + other * other) / 2 + 1);
  EXPECT_THAT(out, Pointwise(FloatNear(1e-5f), std::vector<float>{one / root, other / root}));
}

// Two groups of two heads of one value.
TEST(Mamba, HeadsOfAGroupShareItsInputsAndNorm) {
  const MambaShape shape{.heads = 4, .width = 1, .groups = 2, .size = 1, .kernel = 1};
  EXPECT_EQ(shape.channels(), 8u);
  EXPECT_EQ(shape.projected(), 16u);
  const MambaConstants constants{.kernel = std::vector<float>(8, 1),
                                 .kernel_bias = {},
                                 .step_bias = {0, 0, 0, 0},
                                 .decay = {-1, -1, -1, -1},
                                 .skip = {0, 0, 0, 0},
                                 .norm = {1, 1, 1, 1},
                                 .eps = 0};
  RecurrentState state;
  state.Clear(shape.state());
  const std::vector<float> projected = {1,  1,  1,  1,  30, 30, 30, 30,   // gates, x
                                        50, 70, 60, 60, 25, 25, 25, 50};  // B, C, steps
  std::vector<float> out(4);
  StepMamba(shape, constants, projected, state, out);
  EXPECT_THAT(state.memory, ElementsAre(30 * 25 * 50, 30 * 25 * 50, 30 * 25 * 70, 30 * 50 * 70));
  const float root = std::sqrt(2.5f);  // of 1 and 2
  EXPECT_THAT(out, Pointwise(FloatNear(1e-5f), std::vector<float>{1, 1, 1 / root, 2 / root}));
}

}  // namespace
}  // namespace moepack::runtime
