#include "runtime-shim/model/delta_net.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace moepack::runtime {
namespace {

using testing::ElementsAre;
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

}  // namespace
}  // namespace moepack::runtime
