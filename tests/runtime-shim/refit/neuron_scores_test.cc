#include "runtime-shim/refit/neuron_scores.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/runtime-shim/refit/made_layer.h"

namespace moepack::runtime {
namespace {

// What the scores are, by plain loops over all tokens of the expert at a place.
std::vector<double> PlainScores(const MadeLayer& layer, size_t place, uint32_t id) {
  const NodeLayer& node = layer.made.node;
  const size_t hidden = node.experts.hidden, width = node.experts.width;
  const std::vector<float> inputs = ValuesOf(*node.inputs), outputs = ValuesOf(*node.outputs),
                           targets = ValuesOf(*node.targets);
  std::vector<double> products(width * hidden, 0), squares(width, 0), scores;
  const ExpertTokens tokens = TokensOfExperts(node, true)[place];
  for (size_t i = 0; i < tokens.tokens.size(); ++i) {
    const size_t at = tokens.tokens[i] * hidden;
    const double gate = node.form.weigh_inputs ? 1 : tokens.gates[i];
    std::vector<float> x(inputs.begin() + static_cast<ptrdiff_t>(at),
                         inputs.begin() + static_cast<ptrdiff_t>(at + hidden));
    for (float& value : x) value *= node.form.weigh_inputs ? tokens.gates[i] : 1;
    const std::vector<double> values = PlainActivations(layer.all, id, x.data());
    for (size_t neuron = 0; neuron < width; ++neuron) {
      const double phi = gate * values[neuron];
      squares[neuron] += phi * phi;
      for (size_t row = 0; row < hidden; ++row)
        products[neuron * hidden + row] += phi * (targets[at + row] - outputs[at + row]);
    }
  }
  double mean = 0;
  for (const double square : squares) mean += square / static_cast<double>(width);
  for (size_t neuron = 0; neuron < width; ++neuron) {
    double explained = 0;
    for (size_t row = 0; row < hidden; ++row)
      explained += products[neuron * hidden + row] * products[neuron * hidden + row];
    scores.push_back(explained / (squares[neuron] + 1e-3 * mean));
  }
  return scores;
}

TEST(NeuronScores, RankNeuronsAsExactOnesDo) {
  for (const bool weigh_inputs : {false, true}) {
    MadeLayer layer;
    layer.made.node.form.weigh_inputs = weigh_inputs;
    layer.made.Run();
    NeuronScores scores(layer.made.products(), layer.source(), layer.made.node);
    ASSERT_TRUE(scores.Run(UINT64_MAX));
    const auto best = scores.Best(1, 10);
    ASSERT_TRUE(best);
    ASSERT_EQ(best->size(), 10u);
    std::vector<std::vector<double>> exact;
    for (uint32_t id = 0; id < 6; ++id) exact.push_back(PlainScores(layer, 1, id));
    const auto score = [&](const Neuron& neuron) { return exact[neuron.expert][neuron.index]; };
    for (size_t i = 0; i + 1 < best->size(); ++i)
      EXPECT_GT(score((*best)[i]) * 1.03, score((*best)[i + 1])) << i;
    // No other neuron is better, but those of the expert itself.
    size_t better = 0;
    for (uint32_t id = 0; id < 6; ++id) {
      for (const double other : exact[id])
        better += id != 2 && other > 1.03 * score(best->front()) ? 1 : 0;
    }
    EXPECT_EQ(better, 0u);
  }
}

// Random directions keep the order of scores that differ by much.
TEST(NeuronScores, FindTheNeuronThatExplainsAWideResidual) {
  MadeShape shape;
  shape.hidden = 300;
  shape.width = 20;
  MadeLayer layer(2, shape);
  NodeLayer& node = layer.made.node;
  layer.made.Run();
  std::vector<float> targets = ValuesOf(*node.outputs);
  const std::vector<float> inputs = ValuesOf(*node.inputs);
  for (size_t token = 0; token < node.tokens(); ++token) {
    const double missing = PlainActivations(layer.all, 1, inputs.data() + token * shape.hidden)[7];
    for (size_t row = 0; row < shape.hidden; ++row)
      targets[token * shape.hidden + row] += static_cast<float>(row % 3 == 0 ? missing : -missing);
  }
  ASSERT_TRUE(layer.made.targets().Write(0, targets));
  NeuronScores scores(layer.made.products(), layer.source(), node);
  ASSERT_TRUE(scores.Run(UINT64_MAX));
  const auto best = scores.Best(0, 1);
  ASSERT_TRUE(best);
  EXPECT_EQ(best->at(0).expert, 1u);
  EXPECT_EQ(best->at(0).index, 7u);
}

TEST(ScoredRows, AreEnoughForEachExpertAndFitTheMemory) {
  EXPECT_EQ(ScoredRows(64, 8, 1000, 100'000, UINT64_MAX), 8 * kSampledTokens);
  EXPECT_EQ(ScoredRows(64, 8, 1000, 500, UINT64_MAX), 500u);
  EXPECT_EQ(ScoredRows(64, 8, 1000, 100'000, 700 * 2000), 700u);
  EXPECT_EQ(ScoredRows(64, 8, 1000, 100'000, 0), 1u);
}

TEST(Scores, OfANeuronThatNeverFiresAreZero) {
  EXPECT_EQ(ScoresOf(std::vector<NeuronSize>{{0, 0}, {0, 0}}), (std::vector<double>{0, 0}));
  const std::vector<double> scores = ScoresOf(std::vector<NeuronSize>{{3, 2}, {0, 0}});
  EXPECT_NEAR(scores[0], 9 / (4 + 1e-3 * 2), 1e-9);
}

TEST(LargestScores, ComeFirstAndEqualOnesInTheirOrder) {
  EXPECT_EQ(LargestScores(std::vector<double>{1, 3, 2, 3}, 3), (std::vector<size_t>{1, 3, 2}));
  EXPECT_EQ(LargestScores(std::vector<double>{1, 2}, 5), (std::vector<size_t>{1, 0}));
}

}  // namespace
}  // namespace moepack::runtime
