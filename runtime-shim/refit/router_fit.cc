#include "runtime-shim/refit/router_fit.h"

#include <algorithm>

#include "libshard/base/parallel.h"
#include "runtime-shim/gradient/adam.h"
#include "runtime-shim/gradient/gradients.h"
#include "runtime-shim/refit/router_descent.h"
#include "runtime-shim/refit/router_sample.h"
#include "runtime-shim/refit/selection_bias.h"

namespace moepack::runtime {
namespace {

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
        descent_(products, node) {}

  Status Run() {
    for (uint32_t step = 0; step < options_.steps; ++step) {
      SHARD_CHECK(CheckInterrupt());
      // The rate falls to 0, so that the noise of the last batches does not stay in the rows.
      SHARD_CHECK(Step(step, options_.rate * (1 - static_cast<double>(step) / options_.steps)));
    }
    return Ok();
  }

 private:
  Status Step(uint32_t step, double rate) {
    const size_t width = node_.experts.router_width, n = node_.experts.expert_ids.size();
    const std::vector<uint32_t> batch = DrawBatch(sample_.size(), options_.batch, step);
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
