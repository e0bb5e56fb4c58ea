// A node's experts during a tuning, with the products of any executor.
#include <algorithm>
#include <functional>
#include <utility>

#include "libshard/base/parallel.h"
#include "runtime-shim/cpu/row_kernels.h"
#include "runtime-shim/refit/tuned_expert.h"
#include "runtime-shim/refit/tuned_node.h"

namespace moepack::runtime {
namespace {

std::vector<float> GatherRows(std::span<const float> from, size_t width,
                              std::span<const uint32_t> rows) {
  std::vector<float> out;
  out.reserve(rows.size() * width);
  for (const uint32_t row : rows) {
    const auto values = from.subspan(row * width, width);
    out.insert(out.end(), values.begin(), values.end());
  }
  return out;
}

class HostTunedNode : public TunedNode {
 public:
  HostTunedNode(Products& products, NodeLayer& node, std::span<const size_t> changing)
      : products_(products), node_(node), hidden_(node.experts.hidden) {
    for (size_t place = 0; place < node.experts.expert_ids.size(); ++place)
      experts_.emplace_back(products, node, place,
                            std::binary_search(changing.begin(), changing.end(), place));
  }

  Result<std::vector<float>> Logits(std::span<const uint32_t> tokens) override {
    router_inputs_.resize(tokens.size() * node_.experts.router_width);
    SHARD_CHECK(node_.router_inputs->Gather(tokens, router_inputs_, products_.jobs()));
    std::vector<float> logits(tokens.size() * experts_.size());
    SHARD_TRY(const NodeMatrices matrices, LoadRouter(node_.experts, products_.executor()));
    SHARD_CHECK(products_.Project(matrices.router, router_inputs_, logits));
    return logits;
  }

  Result<std::vector<double>> RouterGradient(std::span<const float> by_logit) override {
    const size_t width = node_.experts.router_width;
    std::vector<double> by_row(node_.experts.router.size(), 0);
    SHARD_CHECK(products_.AddProduct({by_logit, experts_.size()}, {router_inputs_, width},
                                     {by_row.data(), width}));
    return by_row;
  }

  // Leaves the sum of the experts' outputs minus the targets.
  Status Run(std::span<const uint32_t> tokens, const Routes& routes) override {
    inputs_.resize(tokens.size() * hidden_);
    targets_.resize(inputs_.size());
    SHARD_CHECK(node_.inputs->Gather(tokens, inputs_, products_.jobs()));
    SHARD_CHECK(node_.targets->Gather(tokens, targets_, products_.jobs()));
    gates_ = routes.gates;
    chosen_ = ChoicesOf(routes, experts_.size());
    residuals_.resize(targets_.size());
    std::transform(targets_.begin(), targets_.end(), residuals_.begin(), std::negate<>());
    for (size_t place = 0; place < experts_.size(); ++place) {
      if (!chosen_[place].rows.empty()) SHARD_CHECK(RunExpert(place));
    }
    return Ok();
  }

  Result<std::vector<TokenSquares>> Measure() override {
    std::vector<TokenSquares> tokens(targets_.size() / hidden_);
    for (size_t row = 0; row < tokens.size(); ++row) {
      for (size_t i = row * hidden_; i < (row + 1) * hidden_; ++i) {
        tokens[row].missed += double{residuals_[i]} * residuals_[i];
        tokens[row].target += double{targets_[i]} * targets_[i];
      }
    }
    return tokens;
  }

  Result<std::vector<double>> Move(std::span<const float> factors, double rate) override {
    for (size_t row = 0; row < factors.size(); ++row) {
      for (float& value : std::span(residuals_).subspan(row * hidden_, hidden_))
        value *= factors[row];
    }
    std::vector<double> by_gate(gates_.size());
    for (size_t place = 0; place < experts_.size(); ++place) {
      const ExpertChoices& own = chosen_[place];
      if (own.rows.empty()) continue;
      std::vector<float> gates;
      for (const size_t choice : own.choices)
        gates.push_back(node_.form.weigh_inputs ? 1 : gates_[choice]);
      SHARD_TRY(
          const std::vector<double> by_factor,
          experts_[place].Back(GatherRows(residuals_, hidden_, own.rows), gates, rate, scratch_));
      for (size_t i = 0; i < by_factor.size(); ++i) by_gate[own.choices[i]] = by_factor[i];
    }
    return by_gate;
  }

  Status Finish() override { return Ok(); }

 private:
  Status RunExpert(size_t place) {
    SHARD_CHECK(CheckInterrupt());
    const ExpertChoices& own = chosen_[place];
    std::vector<float> inputs = GatherRows(inputs_, hidden_, own.rows);
    const bool weigh = node_.form.weigh_inputs;
    for (size_t i = 0; weigh && i < inputs.size(); ++i)
      inputs[i] *= gates_[own.choices[i / hidden_]];
    std::vector<float> outputs(inputs.size());
    SHARD_CHECK(experts_[place].Run(std::move(inputs), outputs));
    // A token chooses an expert once, so that threads add to rows of their own.
    ForPieces(own.rows.size(), RowsWorthAThread(hidden_), products_.jobs(),
              [&](size_t begin, size_t end) {
                for (size_t i = begin; i < end; ++i) {
                  const float factor = weigh ? 1 : gates_[own.choices[i]];
                  for (size_t k = 0; k < hidden_; ++k)
                    residuals_[own.rows[i] * hidden_ + k] += factor * outputs[i * hidden_ + k];
                }
              });
    return Ok();
  }

  Products& products_;
  NodeLayer& node_;
  const size_t hidden_;
  std::vector<TunedExpert> experts_;
  std::vector<float> router_inputs_;  // of the last Logits
  // Of the last Run.
  std::vector<float> inputs_, targets_, residuals_, gates_;
  std::vector<ExpertChoices> chosen_;  // by place
  std::vector<float> scratch_;
};

}  // namespace

std::vector<ExpertChoices> ChoicesOf(const Routes& routes, size_t experts) {
  std::vector<ExpertChoices> chosen(experts);
  for (size_t choice = 0; choice < routes.places.size(); ++choice) {
    ExpertChoices& expert = chosen[routes.places[choice]];
    expert.rows.push_back(static_cast<uint32_t>(choice / routes.top_k));
    expert.choices.push_back(choice);
  }
  return chosen;
}

std::unique_ptr<TunedNode> TuneOnHost(Products& products, NodeLayer& node,
                                      std::span<const size_t> changing) {
  return std::make_unique<HostTunedNode>(products, node, changing);
}

}  // namespace moepack::runtime
