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

// What the best multiple of a neuron's activation takes from the residual is |phi'r|^2 / phi'phi
// (matching pursuit, Mallat and Zhang 1993).
void AddScores(std::span<const NeuronSize> neurons, std::vector<double>& scores) {
  const auto square = [](float norm) { return double{norm} * norm; };
  double mean = 0;
  for (const NeuronSize& neuron : neurons)
    mean += square(neuron.own) / static_cast<double>(neurons.size());
  for (const NeuronSize& neuron : neurons) {
    const double size = square(neuron.own) + kQuietShare * mean;
    scores.push_back(size > 0 ? square(neuron.explained) / size : 0);
  }
}

}  // namespace

Result<std::vector<Neuron>> BestNeurons(Products& products, const RefitOptions& options,
                                        const NeuronSource& source, const NodeLayer& node,
                                        uint32_t self, const ExpertSample& sample) {
  const size_t hidden = node.experts.hidden;
  const uint64_t step = std::max<uint64_t>(1, sample.gates.size() / kScoredTokens);
  const ExpertSample some = EveryNth(sample, hidden, step);
  std::vector<Neuron> neurons;
  std::vector<double> scores;
  std::vector<NeuronSize> sizes;
  SHARD_CHECK(products.HoldTokens(node.form, some.inputs, some.gates, some.roots, some.residuals));
  for (uint32_t id = 0; id < source.experts.size(); ++id) {
    if (id == self || source.experts[id] == nullptr) continue;
    SHARD_CHECK(products.MeasureNeurons(*source.experts[id], node.form, sizes));
    AddScores(sizes, scores);
    for (uint32_t index = 0; index < sizes.size(); ++index) neurons.push_back({id, index});
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
