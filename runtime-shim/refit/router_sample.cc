#include "runtime-shim/refit/router_sample.h"

#include <algorithm>

#include "libshard/base/parallel.h"
#include "libshard/strategies/split_mix.h"
#include "runtime-shim/cpu/packed_products.h"

namespace moepack::runtime {
namespace {

constexpr uint64_t kSampleSeed = 18;
// Tokens whose products a thread computes at a time.
constexpr size_t kTokensOfProducts = 32;

// Returns `count` of the tokens, in an order that is the same everywhere.
std::vector<uint32_t> Draw(std::vector<uint32_t> tokens, uint64_t count) {
  SplitMix64 random(kSampleSeed);
  const size_t drawn = std::min<size_t>(tokens.size(), count);
  for (size_t i = 0; i < drawn; ++i)
    std::swap(tokens[i], tokens[i + random.Below(tokens.size() - i)]);
  tokens.resize(drawn);
  return tokens;
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
  const size_t hidden = node.experts.hidden, n = experts_, one = count * hidden;
  const auto tokens = std::span(tokens_).subspan(first, count);
  block.inputs.resize(one);
  SHARD_CHECK(node.inputs->Gather(tokens, block.inputs));
  block.rows.resize((n + 1) * one);
  for (size_t place = 0; place < n; ++place) {
    const auto outputs = std::span(block.rows).subspan(place * one, one);
    SHARD_CHECK(products.Output(matrices.experts[place], node.form, block.inputs, outputs));
    const float scale = node.scale(place);
    if (scale == 1) continue;
    for (float& value : outputs) value *= scale;
  }
  SHARD_CHECK(node.targets->Gather(tokens, std::span(block.rows).last(one)));
  ForPieces(count, kTokensOfProducts, products.jobs(), [&](size_t begin, size_t end) {
    PackedMatrix packed;
    std::vector<float> between((n + 1) * (n + 1));
    for (size_t i = begin; i < end; ++i) {
      // Row e is the output of expert e for this token, and the last one its target.
      const FloatMatrix rows{block.rows.data() + i * hidden, n + 1, hidden, one};
      packed.PackTurned(rows, 1);
      MultiplyPacked(rows, packed, {}, 1, between);
      TakeProducts(first + i, between);
    }
  });
  return Ok();
}

void RouterSample::TakeProducts(size_t at, std::span<const float> between) {
  const size_t n = experts_;
  targets_[at] = weights_[at] * between[n * (n + 1) + n];
  std::copy_n(between.data() + n * (n + 1), n, with_target_.data() + at * n);
  for (size_t a = 0; a < n; ++a)
    std::copy_n(between.data() + a * (n + 1), n, between_.data() + (at * n + a) * n);
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
