#include "runtime-shim/model/kda.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace moepack::runtime {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

float SiluHere(float x) { return x / (1 + std::exp(-x)); }

// One head of two numbers, and convolutions that see only the latest token.
struct SmallKda {
  KdaShape shape{.heads = 1, .width = 2, .kernel = 1, .lower_bound = -2};
  KdaConstants constants{{1, 1, 1, 1, 1, 1}, {0, 0}, {1}, {1, 1}, 1e-6f};
  RecurrentState state;

  SmallKda() { state.Clear(shape.state()); }
  std::vector<float> Step(const std::vector<float>& key, const std::vector<float>& value,
                          const std::vector<float>& decay, float strength) {
    const std::vector<float> gate = {100, 100}, strengths = {strength};
    std::vector<float> out(2);
    StepKda(shape, constants, {key, key, value, decay, gate, strengths}, state, out);
    return out;
  }
};

// A key that is written with full strength reads its value back; the norm makes its mean square 1.
TEST(Kda, ReadsBackTheValueOfAKey) {
  SmallKda kda;
  const std::vector<float> out = kda.Step({5, 0}, {3, 4}, {-50, -50}, 50);
  const float v0 = SiluHere(3), v1 = SiluHere(4), root = std::sqrt((v0 * v0 + v1 * v1) / 2);
  EXPECT_THAT(out, Pointwise(FloatNear(1e-4f), std::vector<float>{v0 / root, v1 / root}));
  EXPECT_EQ(kda.state.length, 1u);
  EXPECT_THAT(kda.state.memory, Pointwise(FloatNear(1e-4f), std::vector<float>{v0, v1, 0, 0}));
}

// Row i of the memory belongs to channel i of the keys, and decays by itself.
TEST(Kda, EachChannelHasADecayOfItsOwn) {
  SmallKda kda;
  kda.state.memory = {1, 2, 3, 4};
  kda.constants.rate = {2};
  kda.constants.bias = {0.5f, -50};
  kda.Step({5, 0}, {0, 0}, {-0.5f, 0}, -80);  // nothing is written
  const float kept = std::exp(-2 * 0.5f);     // sigmoid of 0
  EXPECT_THAT(kda.state.memory,
              Pointwise(FloatNear(1e-5f), std::vector<float>{kept, 2 * kept, 3, 4}));
}

TEST(Kda, DecaysAtMostToTheLowerBound) {
  SmallKda kda;
  kda.state.memory = {1, 1, 1, 1};
  kda.Step({5, 0}, {0, 0}, {90, 90}, -80);
  EXPECT_THAT(kda.state.memory, Pointwise(FloatNear(1e-5f), std::vector<float>(4, std::exp(-2.f))));
}

TEST(Kda, TheGateIsASigmoid) {
  SmallKda kda;
  const std::vector<float> key = {5, 0}, value = {3, 4}, decay = {-50, -50}, strength = {50};
  const std::vector<float> open = kda.Step(key, value, decay, 50), half = {0, 0};
  SmallKda other;
  std::vector<float> out(2);
  StepKda(other.shape, other.constants, {key, key, value, decay, half, strength}, other.state, out);
  EXPECT_THAT(out, Pointwise(FloatNear(1e-5f), std::vector<float>{open[0] / 2, open[1] / 2}));
}

TEST(Kda, ConvolvesQueriesKeysAndValuesOverPreviousTokens) {
  SmallKda kda;
  kda.shape.kernel = 2;
  kda.constants.kernel = {1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0};  // only the previous token
  kda.state.Clear(kda.shape.state());
  kda.Step({5, 0}, {3, 4}, {-50, -50}, 50);
  EXPECT_THAT(kda.state.memory, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(kda.state.window, ElementsAre(5, 0, 5, 0, 3, 4));
  kda.Step({0, 0}, {0, 0}, {-50, -50}, 50);
  EXPECT_NEAR(kda.state.memory[0], SiluHere(3), 1e-4f);
}

}  // namespace
}  // namespace moepack::runtime
