#include "runtime-shim/refit/router_sample.h"

#include <algorithm>

#include "libshard/base/parallel.h"
#include "libshard/strategies/split_mix.h"

namespace moepack::runtime {
namespace {

constexpr uint64_t kSampleSeed = 18;

// Returns `count` of the tokens, in an order that is the same everywhere.
std::vector<uint32_t> Draw(std::vector<uint32_t> tokens, uint64_t count) {
  SplitMix64 random(kSampleSeed);
  const size_t drawn = std::min<size_t>(tokens.size(), count);
  for (size_t i = 0; i < drawn; ++i)
    std::swap(tokens[i], tokens[i + random.Below(tokens.size() - i)]);
  tokens.resize(drawn);
  return tokens;
}

// dots[i] = a . rows[i]. Each sum is added up in order; several at a time, because one alone would
// wait for each of its additions.
constexpr size_t kDotsAtOnce = 8;
void Dots(std::span<const float> a, std::span<const float* const> rows, double* dots) {
  double sums[kDotsAtOnce] = {};
  if (rows.size() == kDotsAtOnce) {
    for (size_t k = 0; k < a.size(); ++k) {
      for (size_t i = 0; i < kDotsAtOnce; ++i) sums[i] += double{a[k]} * double{rows[i][k]};
    }
  } else {
    for (size_t i = 0; i < rows.size(); ++i) {
      for (size_t k = 0; k < a.size(); ++k) sums[i] += double{a[k]} * double{rows[i][k]};
    }
  }
  std::copy_n(sums, rows.size(), dots);
}

}  // namespace

uint64_t RouterSampleBytes(uint64_t experts, uint64_t router_width) {
  return ((experts + 1) * experts + router_width) * sizeof(float);
}

uint64_t RouterSampleTokens(uint64_t token_bytes, uint64_t memory, uint64_t most) {
  return std::clamp<uint64_t>(memory / token_bytes, 1, most);
}

Result<RouterSample> RouterSample::Make(Products& products, const RouterOptions& options,
                                        const NodeLayer& node) {
  RouterSample sample;
  sample.experts_ = node.experts.expert_ids.size();
  const size_t width = node.experts.router_width;
  std::vector<uint32_t> tokens;
  for (uint32_t token = 0; token < node.tokens(); ++token) {
    if (node.fit_weights[token] != 0) tokens.push_back(token);
  }
  // With the products of all pairs of outputs, the error of any choice and weights needs no more
  // passes: |Y - sum of w_e o_e|^2 = Y'Y - 2 w'(o'Y) + w'(o'o)w.
  sample.tokens_ =
      Draw(std::move(tokens), RouterSampleTokens(RouterSampleBytes(sample.experts_, width),
                                                 options.memory, options.tokens));
  for (const uint32_t token : sample.tokens_) sample.weights_.push_back(node.fit_weights[token]);
  sample.inputs_.resize(sample.size() * width);
  SHARD_CHECK(node.router_inputs->Gather(sample.tokens_, sample.inputs_));
  sample.targets_.resize(sample.size());
  sample.with_target_.resize(sample.size() * sample.experts_);
  sample.between_.resize(sample.with_target_.size() * sample.experts_);
  SHARD_TRY(const NodeMatrices matrices, LoadMatrices(node.experts, products.executor()));
  OutputBlock block;
  for (size_t first = 0; first < sample.size(); first += kTokensOfOutputs) {
    SHARD_CHECK(CheckInterrupt());
    SHARD_CHECK(sample.AddOutputs(products, node, matrices, first,
                                  std::min(kTokensOfOutputs, sample.size() - first), block));
  }
  return sample;
}

Status RouterSample::AddOutputs(Products& products, const NodeLayer& node,
                                const NodeMatrices& matrices, size_t first, size_t count,
                                OutputBlock& block) {
  const size_t hidden = node.experts.hidden, n = experts_;
  const auto tokens = std::span(tokens_).subspan(first, count);
  block.inputs.resize(count * hidden);
  SHARD_CHECK(node.inputs->Gather(tokens, block.inputs));
  block.outputs.resize(n);
  for (size_t place = 0; place < n; ++place) {
    std::vector<float>& outputs = block.outputs[place];
    outputs.resize(count * hidden);
    SHARD_CHECK(products.Output(matrices.experts[place], node.form, block.inputs, outputs));
    const float scale = node.scale(place);
    if (scale == 1) continue;
    for (float& value : outputs) value *= scale;
  }
  block.targets.resize(count * hidden);
  SHARD_CHECK(node.targets->Gather(tokens, block.targets));
  return ParallelFor(count, products.jobs(), [&](size_t i) -> Status {
    MultiplyOutputs(first + i, i * hidden, hidden, block);
    return Ok();
  });
}

void RouterSample::MultiplyOutputs(size_t at, size_t from, size_t hidden,
                                   const OutputBlock& block) {
  const size_t n = experts_;
  std::vector<const float*> rows;
  for (const std::vector<float>& outputs : block.outputs) rows.push_back(outputs.data() + from);
  std::vector<double> dots(n + 1);
  const auto multiply = [&](const float* row, size_t count) {
    for (size_t b = 0; b < count; b += kDotsAtOnce)
      Dots({row, hidden}, std::span(rows).subspan(b, std::min(kDotsAtOnce, count - b)), &dots[b]);
  };
  const float* const target = block.targets.data() + from;
  Dots({target, hidden}, std::span(&target, 1), &dots[n]);
  targets_[at] = weights_[at] * dots[n];
  multiply(target, n);
  for (size_t a = 0; a < n; ++a) with_target_[at * n + a] = static_cast<float>(dots[a]);
  for (size_t a = 0; a < n; ++a) {
    multiply(rows[a], a + 1);
    for (size_t b = 0; b <= a; ++b)
      between_[(at * n + a) * n + b] = between_[(at * n + b) * n + a] = static_cast<float>(dots[b]);
  }
}

Result<TokenChoice> RouterSample::Choose(const NodeLayer& node, size_t row,
                                         std::span<const float> logits,
                                         std::span<const float> selection_bias) const {
  const ExpertIds& ids = node.experts.expert_ids;
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
