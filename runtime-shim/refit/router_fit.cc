#include "runtime-shim/refit/router_fit.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "libshard/base/parallel.h"
#include "libshard/base/result.h"
#include "runtime-shim/gradient/adam.h"
#include "runtime-shim/gradient/gradients.h"
#include "runtime-shim/model/router.h"
#include "runtime-shim/refit/node_layer.h"
#include "runtime-shim/refit/router_descent.h"
#include "runtime-shim/refit/router_sample.h"

namespace moepack::runtime {
namespace {

// ---- The bias that only affects the choice

constexpr uint32_t kSearchRounds = 3;
// Tokens of the sample that a thread takes at a time, and that take part.
constexpr size_t kTokensOfSearch = 256;
constexpr size_t kMostSearched = 8192;

class BiasSearch {
 public:
  BiasSearch(Products& products, const RouterSample& sample, NodeLayer& node)
      : products_(products),
        sample_(sample),
        node_(node),
        size_(std::min(sample.size(), kMostSearched)) {}

  Status Run() {
    SHARD_CHECK(MakeLogits());
    std::vector<float>& bias = node_.experts.selection_bias;
    SHARD_TRY(double best, ErrorOf(bias));
    // A step of this size can move an expert across the whole range of those chosen.
    double step = Spread();
    for (uint32_t round = 0; round < kSearchRounds; ++round, step /= 2) {
      for (size_t place = 0; place < bias.size(); ++place) {
        if (node_.fixed[place]) continue;
        // This bias only decides which experts are chosen, so the error has no slope in it and is
        // compared.
        for (const double sign : {1.0, -1.0}) {
          SHARD_CHECK(CheckInterrupt());
          std::vector<float> tried = bias;
          tried[place] = static_cast<float>(tried[place] + sign * step);
          SHARD_TRY(const double error, ErrorOf(tried));
          if (error >= best) continue;
          best = error;
          bias = std::move(tried);
          break;
        }
      }
    }
    return Ok();
  }

 private:
  Status MakeLogits() {
    const size_t width = node_.experts.router_width;
    logits_.resize(size_ * node_.experts.expert_ids.size());
    SHARD_TRY(const NodeMatrices matrices, LoadRouter(node_.experts, products_.executor()));
    return products_.Project(matrices.router, std::span(sample_.inputs()).first(size_ * width),
                             logits_);
  }

  std::span<const float> LogitsOf(size_t row) const {
    const size_t n = node_.experts.expert_ids.size();
    return std::span(logits_).subspan(row * n, n);
  }

  Result<double> ErrorOf(const std::vector<float>& bias) const {
    // One sum for each piece, added up in their order: threads must not change the bits.
    std::vector<double> sums((size_ + kTokensOfSearch - 1) / kTokensOfSearch, 0);
    SHARD_CHECK(ParallelFor(sums.size(), products_.jobs(), [&](size_t piece) -> Status {
      const size_t end = std::min((piece + 1) * kTokensOfSearch, size_);
      for (size_t row = piece * kTokensOfSearch; row < end; ++row) {
        SHARD_TRY(const TokenChoice choice, sample_.Choose(node_, row, LogitsOf(row), bias));
        sums[piece] += choice.error;
      }
      return Ok();
    }));
    double sum = 0;
    for (const double part : sums) sum += part;
    return sum;
  }

  // The mean distance between the scores of the best expert and of the one at rank top_k.
  double Spread() const {
    double sum = 0;
    for (size_t row = 0; row < size_; ++row) {
      std::vector<float> scores = GateValues(LogitsOf(row), node_.routing);
      for (size_t place = 0; place < scores.size(); ++place)
        scores[place] += node_.experts.selection_bias[place];
      const size_t last = std::min<size_t>(node_.routing.top_k, scores.size() - 1);
      std::sort(scores.begin(), scores.end(), std::greater<>());
      sum += scores.front() - scores[last];
    }
    return size_ > 0 ? sum / static_cast<double>(size_) : 0;
  }

  Products& products_;
  const RouterSample& sample_;
  NodeLayer& node_;
  const size_t size_;
  std::vector<float> logits_;
};

// Moves the bias of one expert after another, up or down, if that lowers the error of the sample,
// in rounds of shrinking steps. The first step is the mean distance between the scores of the best
// expert and of the best one that was not chosen. Does nothing for a router without such a bias.
Status SearchSelectionBias(Products& products, const RouterSample& sample, NodeLayer& node) {
  if (node.experts.selection_bias.empty()) return Ok();
  return BiasSearch(products, sample, node).Run();
}

// ----

// Tokens of a batch whose gradients a thread computes at a time.
constexpr size_t kTokensOfGradient = 64;

class RouterFitter {
 public:
  RouterFitter(Products& products, const RouterOptions& options, NodeLayer& node,
               const RouterSample& sample)
      : products_(products),
        options_(options),
        node_(node),
        sample_(sample),
        descent_(products, node),
        batches_(sample.size(), options.batch) {}

  Status Run() {
    for (uint32_t step = 0; step < options_.steps; ++step) {
      SHARD_CHECK(CheckInterrupt());
      // The rate falls to 0, so that the noise of the last batches does not stay in the rows.
      SHARD_CHECK(Step(options_.rate * (1 - static_cast<double>(step) / options_.steps)));
    }
    return Ok();
  }

 private:
  Status Step(double rate) {
    const size_t width = node_.experts.router_width, n = node_.experts.expert_ids.size();
    const std::vector<uint32_t> batch = batches_.Next();
    inputs_.resize(batch.size() * width);
    logits_.resize(batch.size() * n);
    for (size_t i = 0; i < batch.size(); ++i)
      std::copy_n(sample_.inputs().begin() + static_cast<ptrdiff_t>(batch[i] * width), width,
                  inputs_.begin() + static_cast<ptrdiff_t>(i * width));
    SHARD_TRY(const NodeMatrices matrices, LoadRouter(node_.experts, products_.executor()));
    SHARD_CHECK(products_.Project(matrices.router, inputs_, logits_));
    std::vector<float> by_logit(logits_.size());
    SHARD_CHECK(ThroughGates(batch, logits_, by_logit));
    return descent_.Step(inputs_, by_logit, rate, rate);
  }

  Status ThroughGates(std::span<const uint32_t> batch, std::span<const float> logits,
                      std::vector<float>& by_logit) const {
    const size_t n = node_.experts.expert_ids.size();
    double all = 0;
    for (const uint32_t row : batch) all += sample_.target(row);
    if (all == 0) return Ok();
    const size_t pieces = (batch.size() + kTokensOfGradient - 1) / kTokensOfGradient;
    return ParallelFor(pieces, products_.jobs(), [&](size_t piece) -> Status {
      const size_t end = std::min((piece + 1) * kTokensOfGradient, batch.size());
      for (size_t i = piece * kTokensOfGradient; i < end; ++i) {
        const auto own = logits.subspan(i * n, n);
        SHARD_TRY(const TokenChoice choice,
                  sample_.Choose(node_, batch[i], own, node_.experts.selection_bias));
        const std::vector<double> gradient =
            GateGradient(node_.routing, own, choice.places, choice.by_weight);
        for (size_t place = 0; place < n; ++place)
          by_logit[i * n + place] = static_cast<float>(gradient[place] / all);
      }
      return Ok();
    });
  }

  Products& products_;
  const RouterOptions& options_;
  NodeLayer& node_;
  const RouterSample& sample_;
  RouterDescent descent_;
  Batches batches_;
  std::vector<float> inputs_, logits_;  // of a batch
};

}  // namespace

Status FitRouter(Products& products, const RouterOptions& options, NodeLayer& node) {
  // Outputs are not linear in such gates, and the sample's products of outputs would be wrong.
  if (node.form.weigh_inputs) return Ok();
  SHARD_TRY(const RouterSample sample, RouterSample::Make(products, options, node));
  if (sample.size() == 0) return Ok();
  SHARD_CHECK(RouterFitter(products, options, node, sample).Run());
  return SearchSelectionBias(products, sample, node);
}

Status FitSelectionBias(Products& products, const RouterOptions& options, NodeLayer& node) {
  if (node.form.weigh_inputs || node.experts.selection_bias.empty()) return Ok();
  SHARD_TRY(const RouterSample sample, RouterSample::Make(products, options, node));
  return sample.size() == 0 ? Ok() : SearchSelectionBias(products, sample, node);
}

}  // namespace moepack::runtime
