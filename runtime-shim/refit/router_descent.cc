#include "runtime-shim/refit/router_descent.h"

#include <algorithm>
#include <utility>

namespace moepack::runtime {

RouterDescent::RouterDescent(Products& products, NodeLayer& node)
    : products_(products),
      node_(node),
      rows_(node.experts.router.size(), products.jobs()),
      bias_(node.experts.router_bias.size()) {}

Status RouterDescent::Step(std::span<const float> inputs, std::span<const float> by_logit,
                           double rate_of_rows, double rate_of_bias) {
  const size_t width = node_.experts.router_width, n = node_.experts.expert_ids.size();
  std::vector<double> by_row(node_.experts.router.size(), 0);
  SHARD_CHECK(products_.AddProduct({by_logit, n}, {inputs, width}, {by_row.data(), width}));
  StepBy(std::move(by_row), by_logit, rate_of_rows, rate_of_bias);
  return Ok();
}

void RouterDescent::StepBy(std::vector<double> by_row, std::span<const float> by_logit,
                           double rate_of_rows, double rate_of_bias) {
  RefittedExperts& experts = node_.experts;
  const size_t width = experts.router_width, n = experts.expert_ids.size();
  by_bias_.assign(experts.router_bias.size(), 0);
  for (size_t i = 0; i < by_logit.size() && !by_bias_.empty(); ++i) by_bias_[i % n] += by_logit[i];
  for (size_t place = 0; place < n; ++place) {
    // Rows of experts that other nodes share must not move.
    if (!node_.fixed[place]) continue;
    std::fill_n(by_row.begin() + static_cast<ptrdiff_t>(place * width), width, 0.0);
    if (!by_bias_.empty()) by_bias_[place] = 0;
  }
  rows_.Step(rate_of_rows, by_row, experts.router);
  bias_.Step(rate_of_bias, by_bias_, experts.router_bias);
}

}  // namespace moepack::runtime
