#include "runtime-shim/model/recurrence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

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

// Small vectors stay below the length: llama.cpp's graphs and the models' code add eps to the
// square.
TEST(Recurrence, AddsEpsToTheSquareOfALength) {
  std::vector<float> small = {0.003f, 0.004f}, zero = {0, 0};
  NormalizeTo(2, 2.5e-5f, small);
  EXPECT_NEAR(small[0], 2 * 0.003f / std::sqrt(5e-5f), 1e-6f);
  EXPECT_NEAR(small[1], 2 * 0.004f / std::sqrt(5e-5f), 1e-6f);
  NormalizeTo(1, 1e-6f, zero);
  EXPECT_THAT(zero, ElementsAre(0, 0));
}

using testing::FloatNear;
using testing::Pointwise;

float SiluOf(float x) { return x / (1 + std::exp(-x)); }

// One key head and one value head of two numbers, and a convolution that sees only the latest
// token.
struct SmallNet {
  DeltaShape shape{.key_heads = 1, .value_heads = 1, .width = 2, .kernel = 1};
  DeltaConstants constants{{1, 1, 1, 1, 1, 1}, {0}, {-1}, {1, 1}, 1e-6f};
  RecurrentState state;

  SmallNet() { state.Clear(shape.state()); }
  std::vector<float> Step(const std::vector<float>& mixed, float beta, float alpha) {
    const std::vector<float> gate = {1e3f, 1e3f}, betas = {beta}, alphas = {alpha};
    std::vector<float> out(2);
    StepDelta(shape, constants, {mixed, gate, betas, alphas}, state, out);
    for (float& value : out) value /= 1e3f;  // silu(1000) is 1000
    return out;
  }
};

// A key that is written with full strength reads its value back; the norm makes its mean square 1.
TEST(DeltaNet, ReadsBackTheValueOfAKey) {
  SmallNet net;
  const std::vector<float> out = net.Step({5, 0, 5, 0, 3, 4}, /*beta=*/50, /*alpha=*/-50);
  const float v0 = SiluOf(3), v1 = SiluOf(4), root = std::sqrt((v0 * v0 + v1 * v1) / 2);
  EXPECT_THAT(out, Pointwise(FloatNear(1e-4f), std::vector<float>{v0 / root, v1 / root}));
  EXPECT_EQ(net.state.length, 1u);
  EXPECT_THAT(net.state.memory, Pointwise(FloatNear(1e-4f), std::vector<float>{v0, v1, 0, 0}));
}

TEST(DeltaNet, WritesOnlyWhatTheMemoryLacks) {
  SmallNet net;
  net.Step({5, 0, 5, 0, 3, 4}, 50, -50);
  const std::vector<float> held = net.state.memory;
  net.Step({5, 0, 5, 0, 3, 4}, 50, -50);
  EXPECT_THAT(net.state.memory, Pointwise(FloatNear(1e-5f), held));
  // Nothing is written without strength.
  net.Step({0, 5, 0, 5, 9, 9}, -80, -50);
  EXPECT_THAT(net.state.memory, Pointwise(FloatNear(1e-5f), held));
}

TEST(DeltaNet, DecaysTheMemory) {
  SmallNet net;
  net.Step({5, 0, 5, 0, 3, 4}, 50, -50);
  const std::vector<float> held = net.state.memory;
  net.Step({0, 5, 0, 5, 9, 9}, -80, 0);  // exp(-log(2)) = 1/2
  EXPECT_THAT(net.state.memory,
              Pointwise(FloatNear(1e-5f), std::vector<float>{held[0] / 2, held[1] / 2, 0, 0}));
}

TEST(DeltaNet, ConvolvesOverPreviousTokens) {
  SmallNet net;
  net.shape.kernel = 2;
  net.constants.kernel = {1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0};  // only the previous token
  net.state.Clear(net.shape.state());
  net.Step({5, 0, 5, 0, 3, 4}, 50, -50);
  EXPECT_THAT(net.state.memory, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(net.state.window, ElementsAre(5, 0, 5, 0, 3, 4));
  net.Step({0, 0, 0, 0, 0, 0}, 50, -50);
  EXPECT_NEAR(net.state.memory[0], SiluOf(3), 1e-4f);
}

TEST(DeltaNet, TheGateMayBeASigmoid) {
  SmallNet silu, sigmoid;
  sigmoid.shape.sigmoid_gate = true;
  const std::vector<float> mixed = {5, 0, 5, 0, 3, 4}, expected = silu.Step(mixed, 50, -50);
  std::vector<float> out = sigmoid.Step(mixed, 50, -50);
  for (float& value : out) value *= 1e3f;  // sigmoid(1000) is 1
  EXPECT_THAT(out, Pointwise(FloatNear(1e-5f), expected));
}

TEST(DeltaNet, AssignsValueHeadsToKeyHeadsInRunsOrTiled) {
  const DeltaShape runs{.key_heads = 2, .value_heads = 4, .width = 1, .kernel = 1};
  DeltaShape tiled = runs;
  tiled.tiled = true;
  std::vector<uint32_t> of_runs, of_tiles;
  for (uint32_t head = 0; head < 4; ++head) {
    of_runs.push_back(runs.KeyHeadOf(head));
    of_tiles.push_back(tiled.KeyHeadOf(head));
  }
  EXPECT_THAT(of_runs, ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(of_tiles, ElementsAre(0, 1, 0, 1));
}

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
