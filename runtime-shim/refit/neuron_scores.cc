#include "runtime-shim/refit/neuron_scores.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "libshard/base/parallel.h"
#include "libshard/strategies/split_mix.h"
#include "quant/format.h"
#include "quant/half.h"
#include "runtime-shim/cpu/packed_products.h"
#include "runtime-shim/cpu/panels.h"

namespace moepack::runtime {
namespace {

// Keeps a score from growing without bound if a neuron hardly ever fires: a share of the mean.
constexpr double kQuietShare = 1e-3;
constexpr uint64_t kDirectionSeed = 47;

// Signs that are the same everywhere, scaled so that lengths are kept on average.
std::vector<float> RandomDirections(size_t width) {
  SplitMix64 random(kDirectionSeed);
  const auto one = static_cast<float>(1 / std::sqrt(static_cast<double>(kDirections)));
  std::vector<float> directions(width * kDirections);
  for (float& value : directions) value = random.Below(2) == 0 ? one : -one;
  return directions;
}

}  // namespace

uint64_t ScoredRows(uint64_t experts, uint64_t top_k, uint64_t neurons, uint64_t tokens,
                    uint64_t memory) {
  const uint64_t wanted = kSampledTokens * experts / std::max<uint64_t>(1, top_k);
  const uint64_t most = memory / std::max<uint64_t>(1, ScoredBytes(1, neurons));
  return std::min({tokens, std::max<uint64_t>(1, wanted), std::max<uint64_t>(1, most)});
}

std::vector<double> ScoresOf(std::span<const NeuronSize> neurons) {
  const auto square = [](float norm) { return double{norm} * norm; };
  double mean = 0;
  for (const NeuronSize& neuron : neurons)
    mean += square(neuron.own) / static_cast<double>(neurons.size());
  std::vector<double> scores;
  for (const NeuronSize& neuron : neurons) {
    const double size = square(neuron.own) + kQuietShare * mean;
    const double score = size > 0 ? square(neuron.explained) / size : 0;
    scores.push_back(std::isfinite(score) ? score : 0);
  }
  return scores;
}

std::vector<size_t> LargestScores(std::span<const double> scores, size_t count) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  count = std::min(count, order.size());
  std::partial_sort(
      order.begin(), order.begin() + static_cast<ptrdiff_t>(count), order.end(),
      [&](size_t a, size_t b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; });
  order.resize(count);
  return order;
}

Status NeuronScores::Run(uint64_t memory, uint64_t device_memory) {
  const size_t hidden = node_.experts.hidden;
  DrawRows(memory);
  std::vector<float> inputs(tokens_.size() * hidden);
  SHARD_CHECK(node_.inputs->Gather(tokens_, inputs, products_.jobs()));
  if (hidden > kDirections) directions_ = RandomDirections(hidden);
  std::vector<float> gates = gates_;
  gates.resize(tokens_.size(), 1);
  SHARD_TRY(device_, DeviceScores::Make(products_, source_.experts, {node_.form, inputs, gates},
                                        device_memory));
  if (device_ != nullptr) return Ok();
  activations_.resize(source_.experts.size());
  for (uint32_t id = 0; id < source_.experts.size(); ++id) {
    SHARD_CHECK(CheckInterrupt());
    if (source_.experts[id] != nullptr) SHARD_CHECK(RunExpert(id, inputs, gates));
  }
  return Ok();
}

// A row is a token, for all experts that it chose. Where gates weigh the inputs, a neuron's
// activations depend on them, and a row is a choice of a token.
void NeuronScores::DrawRows(uint64_t memory) {
  const Routes& routes = node_.routes;
  uint64_t neurons = 0;
  for (const MlpWeights* expert : source_.experts)
    neurons += expert != nullptr ? expert->inner() : 0;
  std::vector<uint32_t> fitted;
  for (uint32_t token = 0; token < node_.tokens(); ++token) {
    if (node_.fit_weights[token] != 0) fitted.push_back(token);
  }
  const size_t own = node_.form.weigh_inputs ? routes.top_k : 1;
  const uint64_t rows = ScoredRows(node_.experts.expert_ids.size(), routes.top_k, own * neurons,
                                   fitted.size(), memory);
  choices_.resize(node_.experts.expert_ids.size());
  for (uint64_t i = 0; i < rows; ++i) {
    const uint32_t token = fitted[i * fitted.size() / rows];  // spread evenly over the text
    for (size_t rank = 0; rank < routes.top_k; ++rank) {
      const size_t at = token * routes.top_k + rank;
      if (rank < own) {
        if (node_.form.weigh_inputs) gates_.push_back(routes.gates[at]);
        tokens_.push_back(token);
      }
      choices_[routes.places[at]].push_back(
          {static_cast<uint32_t>(tokens_.size() - 1), token, routes.gates[at]});
    }
  }
}

Status NeuronScores::RunExpert(uint32_t id, std::span<const float> inputs,
                               std::span<const float> gates) {
  const MlpWeights& expert = *source_.experts[id];
  const size_t inner = expert.inner(), rows = gates.size();
  std::vector<float> values(rows * inner);
  SHARD_CHECK(products_.Activations(expert, node_.form, inputs, gates, values));
  std::vector<uint16_t> encoded(values.size());
  ForPieces(rows, RowsWorthAThread(inner), products_.jobs(), [&](size_t begin, size_t end) {
    const size_t at = begin * inner, count = (end - begin) * inner;
    quant::FindFormat("bf16")->encode(
        std::span(values).subspan(at, count), {},
        std::as_writable_bytes(std::span(encoded).subspan(at, count)));
  });
  const size_t panels = (inner + kPanelColumns - 1) / kPanelColumns;
  std::vector<uint16_t>& halves = activations_[id];
  halves.assign(panels * rows * kPanelColumns, 0);
  ForPieces(panels, 1, products_.jobs(), [&](size_t panel, size_t) {
    const size_t first = panel * kPanelColumns, some = std::min(kPanelColumns, inner - first);
    for (size_t row = 0; row < rows; ++row) {
      std::copy_n(encoded.data() + row * inner + first, some,
                  halves.data() + (panel * rows + row) * kPanelColumns);
    }
  });
  return Ok();
}

Status NeuronScores::TakeMissing(std::span<const Choice> choices) {
  const size_t hidden = node_.experts.hidden;
  std::vector<uint32_t> tokens;
  for (const Choice& choice : choices) tokens.push_back(choice.token);
  ExpertSample sample;
  SHARD_CHECK(TakeSample(node_, tokens, products_.jobs(), sample));
  factors_.clear();
  for (size_t i = 0; i < choices.size(); ++i)
    factors_.push_back(sample.roots[i] * (node_.form.weigh_inputs ? 1 : choices[i].gate));
  width_ = hidden;
  if (directions_.empty()) {
    missed_ = std::move(sample.residuals);
    return Ok();
  }
  width_ = kDirections;
  missed_.resize(choices.size() * width_);
  return products_.MultiplyBy({directions_, width_}, sample.residuals, missed_);
}

void NeuronScores::Measure(uint32_t id, std::span<const Choice> choices,
                           std::vector<NeuronSize>& sizes) const {
  const std::vector<uint16_t>& halves = activations_[id];
  const size_t rows = tokens_.size(), count = choices.size();
  std::vector<float> panel(count * kPanelColumns), sums(width_ * kPanelColumns);
  for (size_t first = 0; first < sizes.size(); first += kPanelColumns) {
    float own[kPanelColumns] = {}, explained[kPanelColumns] = {};
    for (size_t i = 0; i < count; ++i) {
      const uint16_t* const from = halves.data() + (first * rows + choices[i].row * kPanelColumns);
      float* const to = panel.data() + i * kPanelColumns;
      const float factor = factors_[i] * factors_[i];
      for (size_t c = 0; c < kPanelColumns; ++c) {
        to[c] = quant::Bfloat16ToFloat(from[c]);
        own[c] += factor * to[c] * to[c];
      }
    }
    std::fill(sums.begin(), sums.end(), 0.0f);
    AddPanelProducts({missing_.data(), TurnedStride(count), width_, count}, {panel.data()},
                     {sums.data()});
    for (size_t i = 0; i < width_; ++i) {
      for (size_t c = 0; c < kPanelColumns; ++c)
        explained[c] += sums[i * kPanelColumns + c] * sums[i * kPanelColumns + c];
    }
    const size_t some = std::min(kPanelColumns, sizes.size() - first);
    for (size_t c = 0; c < some; ++c)
      sizes[first + c] = {std::sqrt(explained[c]), std::sqrt(own[c])};
  }
}

Result<std::vector<std::vector<NeuronSize>>> NeuronScores::MeasureAll(
    uint32_t self, std::span<const Choice> choices) {
  if (device_ != nullptr) {
    DeviceScores::Missing missing;
    for (const Choice& choice : choices) missing.rows.push_back(choice.row);
    missing.factors = factors_;
    missing.values = missed_;
    missing.width = width_;
    return device_->Measure(missing);
  }
  ScaleRows(factors_, products_.jobs(), missed_);
  TurnMatrix(FloatMatrix::Of(missed_, width_), TurnedStride(choices.size()), products_.jobs(),
             missing_);
  std::vector<std::vector<NeuronSize>> sizes(source_.experts.size());
  ForPieces(sizes.size(), 1, products_.jobs(), [&](size_t id, size_t) {
    if (id == self || source_.experts[id] == nullptr) return;
    sizes[id].resize(source_.experts[id]->inner());
    Measure(static_cast<uint32_t>(id), choices, sizes[id]);
  });
  return sizes;
}

Result<std::vector<Neuron>> NeuronScores::Best(size_t place, size_t count) {
  const std::span<const Choice> choices = choices_[place];
  const uint32_t self = node_.experts.expert_ids[place];
  SHARD_CHECK(TakeMissing(choices));
  SHARD_TRY(const std::vector<std::vector<NeuronSize>> sizes, MeasureAll(self, choices));
  std::vector<std::vector<double>> by_expert(sizes.size());
  ForPieces(by_expert.size(), 1, products_.jobs(), [&](size_t id, size_t) {
    if (id != self && source_.experts[id] != nullptr) by_expert[id] = ScoresOf(sizes[id]);
  });
  std::vector<Neuron> neurons, best;
  std::vector<double> scores;
  for (uint32_t id = 0; id < by_expert.size(); ++id) {
    for (uint32_t index = 0; index < by_expert[id].size(); ++index) neurons.push_back({id, index});
    scores.insert(scores.end(), by_expert[id].begin(), by_expert[id].end());
  }
  for (const size_t at : LargestScores(scores, count)) best.push_back(neurons[at]);
  return best;
}

}  // namespace moepack::runtime
