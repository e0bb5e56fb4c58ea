#include "runtime-shim/refit/router_sample.h"

#include <algorithm>

#include "libshard/base/parallel.h"
#include "libshard/strategies/split_mix.h"

namespace moepack::runtime {
namespace {

constexpr uint64_t kSampleSeed = 18;
// Tokens whose outputs of all experts are in memory at once.
constexpr size_t kTokensOfOutputs = 256;

// Returns `count` of the tokens, in an order that is the same everywhere.
std::vector<uint32_t> Draw(std::vector<uint32_t> tokens, uint64_t count) {
  SplitMix64 random(kSampleSeed);
  const size_t drawn = std::min<size_t>(tokens.size(), count);
  for (size_t i = 0; i < drawn; ++i)
    std::swap(tokens[i], tokens[i + random.Below(tokens.size() - i)]);
  tokens.resize(drawn);
  return tokens;
}

double Dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * double{b[i]};
  return sum;
}

}  // namespace

Result<RouterSample> RouterSample::Make(Products& products, const RouterOptions& options,
                                        const NodeLayer& node) {
  RouterSample sample;
  sample.experts_ = node.experts.experts.size();
  const size_t width = node.experts.router_width;
  std::vector<uint32_t> tokens;
  for (uint32_t token = 0; token < node.tokens(); ++token) {
    if (node.fit_weights[token] != 0) tokens.push_back(token);
  }
  // With the products of all pairs of outputs, the error of any choice and weights needs no more
  // passes: |Y - sum of w_e o_e|^2 = Y'Y - 2 w'(o'Y) + w'(o'o)w.
  const uint64_t bytes =
      (sample.experts_ + 1) * sample.experts_ * sizeof(float) + width * sizeof(float);
  sample.tokens_ =
      Draw(std::move(tokens), std::clamp<uint64_t>(options.memory / bytes, 1, options.tokens));
  for (const uint32_t token : sample.tokens_) sample.weights_.push_back(node.fit_weights[token]);
  sample.inputs_.resize(sample.size() * width);
  SHARD_CHECK(node.router_inputs->Gather(sample.tokens_, sample.inputs_));
  sample.targets_.resize(sample.size());
  sample.with_target_.resize(sample.size() * sample.experts_);
  sample.between_.resize(sample.with_target_.size() * sample.experts_);
  SHARD_TRY(const NodeMatrices matrices, LoadMatrices(node.experts, products.executor()));
  for (size_t first = 0; first < sample.size(); first += kTokensOfOutputs) {
    SHARD_CHECK(CheckInterrupt());
    SHARD_CHECK(sample.AddOutputs(products, node, matrices, first,
                                  std::min(kTokensOfOutputs, sample.size() - first)));
  }
  return sample;
}

Status RouterSample::AddOutputs(Products& products, const NodeLayer& node,
                                const NodeMatrices& matrices, size_t first, size_t count) {
  const size_t hidden = node.experts.hidden, n = experts_;
  const auto tokens = std::span(tokens_).subspan(first, count);
  std::vector<float> inputs(count * hidden);
  SHARD_CHECK(node.inputs->Gather(tokens, inputs));
  std::vector<std::vector<float>> outputs(n, std::vector<float>(count * hidden));
  for (size_t place = 0; place < n; ++place) {
    SHARD_CHECK(products.Output(matrices.experts[place], node.form, inputs, outputs[place]));
    const float scale = node.scale(place);
    if (scale == 1) continue;
    for (float& value : outputs[place]) value *= scale;
  }
  std::vector<float> targets(count * hidden);
  SHARD_CHECK(node.targets->Gather(tokens, targets));
  return ParallelFor(count, products.jobs(), [&](size_t i) -> Status {
    const auto row = [&](const std::vector<float>& rows) {
      return std::span(rows).subspan(i * hidden, hidden);
    };
    const size_t at = first + i;
    targets_[at] = weights_[at] * Dot(row(targets), row(targets));
    for (size_t a = 0; a < n; ++a) {
      with_target_[at * n + a] = static_cast<float>(Dot(row(outputs[a]), row(targets)));
      for (size_t b = 0; b <= a; ++b) {
        const auto product = static_cast<float>(Dot(row(outputs[a]), row(outputs[b])));
        between_[(at * n + a) * n + b] = between_[(at * n + b) * n + a] = product;
      }
    }
    return Ok();
  });
}

Result<TokenChoice> RouterSample::Choose(const NodeLayer& node, size_t row,
                                         std::span<const float> logits,
                                         std::span<const float> selection_bias) const {
  const ExpertIds& ids = node.experts.experts;
  std::vector<float> wide(node.routing.expert_count, 0), bias;
  if (!selection_bias.empty()) bias.assign(wide.size(), 0);
  for (size_t i = 0; i < ids.size(); ++i) {
    wide[ids[i]] = logits[i];
    if (!bias.empty()) bias[ids[i]] = selection_bias[i];
  }
  SHARD_TRY(const Selection chosen, SelectExperts(wide, bias, node.routing, ids));
  TokenChoice choice;
  for (const uint32_t id : chosen.ids) {
    const auto found = std::lower_bound(ids.begin(), ids.end(), id);
    choice.places.push_back(static_cast<uint32_t>(found - ids.begin()));
  }
  const double weight = weights_[row];
  choice.error = targets_[row];
  for (size_t i = 0; i < choice.places.size(); ++i) {
    const size_t place = choice.places[i];
    double given = 0;  // (Mw) of this expert
    for (size_t j = 0; j < choice.places.size(); ++j)
      given += double{chosen.weights[j]} *
               between_[(row * experts_ + place) * experts_ + choice.places[j]];
    const double wanted = with_target_[row * experts_ + place];
    choice.by_weight.push_back(-2 * weight * (wanted - given));
    choice.error += weight * chosen.weights[i] * (given - 2 * wanted);
  }
  return choice;
}

}  // namespace moepack::runtime
