#include "runtime-shim/refit/router_fit.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "libshard/base/parallel.h"
#include "libshard/strategies/split_mix.h"
#include "runtime-shim/refit/gate_gradient.h"
#include "runtime-shim/refit/router_sample.h"
#include "runtime-shim/refit/selection_bias.h"

namespace moepack::runtime {
namespace {

// Adam (Kingma and Ba 2014). Its usual 0.999 would average over ten times as many steps as there
// are.
constexpr double kFirstMoment = 0.9, kSecondMoment = 0.99, kStepFloor = 1e-9;
// Tokens of a batch whose gradients a thread computes at a time.
constexpr size_t kTokensOfGradient = 64;

// Adam's state for some parameters.
class Adam {
 public:
  explicit Adam(size_t count) : first_(count, 0), second_(count, 0) {}

  // `step` counts from 0.
  void Step(uint32_t step, double rate, std::span<const double> gradient,
            std::span<double> values) {
    const double bias_first = 1 - std::pow(kFirstMoment, step + 1),
                 bias_second = 1 - std::pow(kSecondMoment, step + 1);
    for (size_t i = 0; i < values.size(); ++i) {
      const double slope = gradient[i];
      first_[i] = kFirstMoment * first_[i] + (1 - kFirstMoment) * slope;
      second_[i] = kSecondMoment * second_[i] + (1 - kSecondMoment) * slope * slope;
      values[i] -=
          rate * (first_[i] / bias_first) / (std::sqrt(second_[i] / bias_second) + kStepFloor);
    }
  }

 private:
  std::vector<double> first_, second_;
};

class RouterFitter {
 public:
  RouterFitter(Products& products, const RouterOptions& options, NodeLayer& node,
               const RouterSample& sample)
      : products_(products),
        options_(options),
        node_(node),
        sample_(sample),
        rows_(node.experts.router.begin(), node.experts.router.end()),
        bias_(node.experts.router_bias.begin(), node.experts.router_bias.end()) {}

  Status Run() {
    Adam rows(rows_.size()), bias(bias_.size());
    for (uint32_t step = 0; step < options_.steps; ++step) {
      SHARD_CHECK(CheckInterrupt());
      SHARD_CHECK(MakeGradient(step));
      // The rate falls to 0, so that the noise of the last batches does not stay in the rows.
      const double rate = options_.rate * (1 - static_cast<double>(step) / options_.steps);
      rows.Step(step, rate, by_row_, rows_);
      bias.Step(step, rate, by_bias_, bias_);
      Store();
    }
    return Ok();
  }

 private:
  // The whole sample if it is not larger than a batch; otherwise rows drawn with the step alone as
  // the seed, so that a layer that is run again draws the same ones.
  std::vector<uint32_t> BatchOf(uint32_t step) const {
    std::vector<uint32_t> batch(std::min<size_t>(options_.batch, sample_.size()));
    std::iota(batch.begin(), batch.end(), 0u);
    if (batch.size() == sample_.size()) return batch;
    SplitMix64 random(step);
    for (uint32_t& row : batch) row = static_cast<uint32_t>(random.Below(sample_.size()));
    return batch;
  }

  // The gradient of rows and biases, for the step's batch.
  Status MakeGradient(uint32_t step) {
    const size_t width = node_.experts.router_width, n = node_.experts.experts.size();
    const std::vector<uint32_t> batch = BatchOf(step);
    inputs_.resize(batch.size() * width);
    logits_.resize(batch.size() * n);
    for (size_t i = 0; i < batch.size(); ++i)
      std::copy_n(sample_.inputs().begin() + static_cast<ptrdiff_t>(batch[i] * width), width,
                  inputs_.begin() + static_cast<ptrdiff_t>(i * width));
    SHARD_TRY(const NodeMatrices matrices, LoadRouter(node_.experts, products_.executor()));
    SHARD_CHECK(products_.Project(matrices.router, inputs_, logits_));
    std::vector<float> by_logit(logits_.size());
    SHARD_CHECK(ThroughGates(batch, logits_, by_logit));
    by_row_.assign(rows_.size(), 0);
    SHARD_CHECK(products_.AddProduct({by_logit, n}, {inputs_, width}, {by_row_.data(), width}));
    by_bias_.assign(bias_.size(), 0);
    for (size_t i = 0; i < by_logit.size() && !bias_.empty(); ++i) by_bias_[i % n] += by_logit[i];
    for (size_t place = 0; place < n; ++place) {
      // Rows of experts that other nodes share must not move.
      if (!node_.fixed[place]) continue;
      std::fill_n(by_row_.begin() + static_cast<ptrdiff_t>(place * width), width, 0.0);
      if (!bias_.empty()) by_bias_[place] = 0;
    }
    return Ok();
  }

  Status ThroughGates(std::span<const uint32_t> batch, std::span<const float> logits,
                      std::vector<float>& by_logit) const {
    const size_t n = node_.experts.experts.size();
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

  void Store() {
    for (size_t i = 0; i < rows_.size(); ++i)
      node_.experts.router[i] = static_cast<float>(rows_[i]);
    for (size_t i = 0; i < bias_.size(); ++i)
      node_.experts.router_bias[i] = static_cast<float>(bias_[i]);
  }

  Products& products_;
  const RouterOptions& options_;
  NodeLayer& node_;
  const RouterSample& sample_;
  std::vector<double> rows_, bias_;       // what is fitted
  std::vector<double> by_row_, by_bias_;  // its gradient
  std::vector<float> inputs_, logits_;    // of a batch
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

}  // namespace moepack::runtime
