#include "runtime-shim/refit/ridge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime-shim/refit/made_node.h"

namespace moepack::runtime {
namespace {

using testing::HasSubstr;

constexpr double kLambda = 0.05;
constexpr uint64_t kNoMemory = 0;

// With so many bytes for matrices.
RefitOptions WithMemory(uint64_t bytes, double lambda = kLambda, uint32_t sweeps = 3) {
  RefitOptions options;
  options.lambda = lambda;
  options.sweeps = sweeps;
  options.memory = bytes == UINT64_MAX ? bytes : 4 * bytes;
  return options;
}

void Ridge(MadeNode& made, uint64_t memory, uint32_t sweeps = 3, double lambda = kLambda) {
  made.Run();
  const Status done = RidgeDown(made.products(), WithMemory(memory, lambda, sweeps), made.node);
  ASSERT_TRUE(done) << done.error().message;
}

// phi of every token: [T, n F], computed with plain loops.
std::vector<std::vector<double>> PlainPhi(const NodeLayer& node) {
  const std::vector<float> inputs = ValuesOf(*node.inputs);
  const size_t width = node.experts.width, hidden = node.experts.hidden;
  std::vector<std::vector<double>> phi(
      node.tokens(), std::vector<double>(node.experts.expert_ids.size() * width, 0));
  for (size_t token = 0; token < node.tokens(); ++token) {
    for (size_t rank = 0; rank < node.routes.top_k; ++rank) {
      const size_t at = token * node.routes.top_k + rank, place = node.routes.places[at];
      const std::vector<double> own =
          PlainActivations(node.experts, place, inputs.data() + token * hidden);
      for (size_t neuron = 0; neuron < width; ++neuron)
        phi[token][place * width + neuron] = node.routes.gates[at] * own[neuron];
    }
  }
  return phi;
}

// The largest component of the gradient phi'(Y - phi W) - r (W - W0), relative to r |W|.
double GradientOf(const NodeLayer& node, const RefittedExperts& before) {
  const auto phi = PlainPhi(node);
  const std::vector<float> targets = ValuesOf(*node.targets);
  const size_t width = node.experts.width, hidden = node.experts.hidden, size = phi[0].size();
  double mean = 0;
  for (size_t token = 0; token < node.tokens(); ++token) {
    for (const double value : phi[token])
      mean += node.fit_weights[token] * value * value / static_cast<double>(size);
  }
  double worst = 0;
  for (size_t row = 0; row < hidden; ++row) {
    const auto at = [&](size_t neuron) {
      return (neuron / width * hidden + row) * width + neuron % width;
    };
    std::vector<double> gradient(size, 0);
    for (size_t token = 0; token < node.tokens(); ++token) {
      double missing = targets[token * hidden + row];
      for (size_t neuron = 0; neuron < size; ++neuron)
        missing -= phi[token][neuron] * node.experts.down[at(neuron)];
      for (size_t neuron = 0; neuron < size; ++neuron)
        gradient[neuron] += node.fit_weights[token] * phi[token][neuron] * missing;
    }
    for (size_t neuron = 0; neuron < size; ++neuron) {
      const double pull =
          kLambda * mean * (node.experts.down[at(neuron)] - before.down[at(neuron)]);
      worst = std::max(worst, std::abs(gradient[neuron] - pull));
    }
  }
  return worst / (kLambda * mean);
}

TEST(Ridge, JointSolutionHasNoGradientLeft) {
  MadeNode made;
  const RefittedExperts before = made.node.experts;
  Ridge(made, UINT64_MAX);
  EXPECT_NE(made.node.experts.down, before.down);
  EXPECT_LT(GradientOf(made.node, before), 1e-4);
}

TEST(Ridge, ExpertsSolvedInTurnsReachTheJointSolution) {
  MadeNode made;
  const RefittedExperts before = made.node.experts;
  Ridge(made, kNoMemory, 200);
  EXPECT_LT(GradientOf(made.node, before), 1e-3);
}

// Those that the memory does not hold are made again at each turn.
TEST(Ridge, BitsDoNotDependOnHowManyFactorsAreKept) {
  const MadeShape shape;
  const uint64_t changes = shape.ids.size() * shape.width * shape.hidden * sizeof(float),
                 one = shape.width * shape.width * sizeof(double);
  EXPECT_EQ(FactorsHeld(4, shape.width, shape.hidden, changes), 0u);
  EXPECT_EQ(FactorsHeld(4, shape.width, shape.hidden, changes + 2 * one), 2u);
  EXPECT_EQ(FactorsHeld(4, shape.width, shape.hidden, UINT64_MAX), 4u);
  MadeNode none, two;
  Ridge(none, kNoMemory);
  ASSERT_FALSE(RidgeIsJoint(4, shape.width, 700, changes + 2 * one));
  Ridge(two, changes + 2 * one);
  EXPECT_EQ(none.node.experts.down, two.node.experts.down);
}

TEST(Ridge, TurnsLeaveTheOutputsOfTheNewProjections) {
  MadeNode made;
  Ridge(made, kNoMemory, 2);
  const std::vector<float> left = ValuesOf(*made.node.outputs);
  ASSERT_TRUE(RunNode(made.products(), made.node));
  const std::vector<float> made_again = ValuesOf(*made.node.outputs);
  for (size_t i = 0; i < left.size(); ++i) ASSERT_NEAR(left[i], made_again[i], 1e-4) << i;
}

TEST(Ridge, TokenWeightsCountAsRepetitions) {
  MadeNode twice, once;
  std::fill(twice.node.fit_weights.begin(), twice.node.fit_weights.end(), 2.0f);
  std::fill(once.node.fit_weights.begin(), once.node.fit_weights.end(), 1.0f);
  Ridge(twice, UINT64_MAX);
  Ridge(once, UINT64_MAX);
  for (size_t i = 0; i < once.node.experts.down.size(); ++i)
    ASSERT_NEAR(twice.node.experts.down[i], once.node.experts.down[i], 1e-5) << i;
}

TEST(Ridge, KeepsFixedExpertsAndThoseWithTooFewTokens) {
  MadeNode made;
  made.node.fixed[1] = true;
  made.Run();
  const auto tokens = TokensOfExperts(made.node, true);
  size_t rarest = 0;
  for (size_t place = 0; place < tokens.size(); ++place) {
    if (tokens[place].tokens.size() < tokens[rarest].tokens.size()) rarest = place;
  }
  made.node.least_tokens = tokens[rarest].tokens.size() + 1;
  for (const uint64_t memory : {UINT64_MAX, kNoMemory}) {
    const RefittedExperts before = made.node.experts;
    Ridge(made, memory);
    const size_t one = before.hidden * before.width;
    for (size_t i = 0; i < before.down.size(); ++i) {
      const bool stays = i / one == 1 || i / one == rarest;
      EXPECT_EQ(made.node.experts.down[i] == before.down[i], stays) << i;
    }
  }
}

TEST(Ridge, BitsDoNotDependOnThreads) {
  for (const uint64_t memory : {UINT64_MAX, kNoMemory}) {
    MadeShape shape;
    shape.tokens = 5000;
    shape.hidden = 96;
    shape.width = 80;
    MadeNode one(shape, 1), three(shape, 3);
    Ridge(one, memory, 2);
    Ridge(three, memory, 2);
    EXPECT_EQ(one.node.experts.down, three.node.experts.down);
  }
}

TEST(Ridge, SingularMatrixIsNamed) {
  for (const uint64_t memory : {UINT64_MAX, kNoMemory}) {
    MadeNode made;
    std::fill(made.node.experts.gate.begin(), made.node.experts.gate.begin() + 8, 0.0f);
    made.Run();
    const Status done = RidgeDown(made.products(), WithMemory(memory, 0), made.node);
    ASSERT_FALSE(done);
    EXPECT_THAT(done.error().message, HasSubstr("normal matrix: expected a positive definite one"));
  }
}

}  // namespace
}  // namespace moepack::runtime
