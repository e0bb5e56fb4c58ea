#include "runtime-shim/refit/neuron_scores.h"

#include <algorithm>
#include <numeric>

namespace moepack::runtime {
namespace {

// Keeps a score from growing without bound if a neuron hardly ever fires: a share of the mean.
constexpr double kQuietShare = 1e-3;

ExpertSample EveryNth(const ExpertSample& sample, size_t hidden, size_t step) {
  ExpertSample some;
  const size_t count = (sample.gates.size() + step - 1) / step;
  some.inputs.reserve(count * hidden);
  some.residuals.reserve(count * hidden);
  for (size_t row = 0; row < sample.gates.size(); row += step) {
    const auto first = static_cast<ptrdiff_t>(row * hidden),
               last = first + static_cast<ptrdiff_t>(hidden);
    some.inputs.insert(some.inputs.end(), sample.inputs.begin() + first,
                       sample.inputs.begin() + last);
    some.residuals.insert(some.residuals.end(), sample.residuals.begin() + first,
                          sample.residuals.begin() + last);
    some.gates.push_back(sample.gates[row]);
    some.roots.push_back(sample.roots[row]);
  }
  return some;
}

// The squares of each neuron's activations: [F].
std::vector<double> SquaresOf(std::span<const float> scaled, size_t width) {
  std::vector<double> squares(width, 0);
  for (size_t first = 0; first < scaled.size(); first += width) {
    for (size_t i = 0; i < width; ++i)
      squares[i] += double{scaled[first + i]} * double{scaled[first + i]};
  }
  return squares;
}

// `explained` has |phi'r|^2 of each neuron. Divided by phi'phi, it is what the best multiple of the
// neuron's activation would take from the residual (matching pursuit, Mallat and Zhang 1993).
void AddScores(std::span<const double> explained, std::span<const double> squares,
               std::vector<double>& scores) {
  const double mean =
      std::accumulate(squares.begin(), squares.end(), 0.0) / static_cast<double>(squares.size());
  for (size_t neuron = 0; neuron < squares.size(); ++neuron) {
    const double size = squares[neuron] + kQuietShare * mean;
    scores.push_back(size > 0 ? explained[neuron] / size : 0);
  }
}

}  // namespace

Result<std::vector<Neuron>> BestNeurons(Products& products, const RefillOptions& options,
                                        const NeuronSource& source, const NodeLayer& node,
                                        uint32_t self, const ExpertSample& sample) {
  const size_t hidden = node.experts.hidden;
  const uint64_t step = std::max<uint64_t>(1, sample.gates.size() / options.scored_tokens);
  const ExpertSample some = EveryNth(sample, hidden, step);
  std::vector<Neuron> neurons;
  std::vector<double> scores;
  std::vector<float> scaled;
  SHARD_TRY(const HeldTable residuals, products.Hold({some.residuals, hidden}));
  for (uint32_t id = 0; id < source.experts.size(); ++id) {
    if (id == self || source.experts[id] == nullptr) continue;
    const size_t width = source.experts[id]->inner();
    SHARD_CHECK(ScaledActivations(products, node, *source.experts[id], some, scaled));
    std::vector<double> explained(width, 0);
    SHARD_CHECK(products.SquareProduct({scaled, width}, residuals, explained));
    AddScores(explained, SquaresOf(scaled, width), scores);
    for (uint32_t index = 0; index < width; ++index) neurons.push_back({id, index});
  }
  std::vector<size_t> order(neurons.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  order.resize(
      std::min<size_t>(order.size(), options.pool > 0 ? options.pool : node.experts.width));
  std::vector<Neuron> best;
  for (const size_t place : order) best.push_back(neurons[place]);
  return best;
}

}  // namespace moepack::runtime
