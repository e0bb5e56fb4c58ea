// The tokens that a router is fitted on, with the data that its error depends on.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libshard/base/result.h"
#include "runtime-shim/model/router.h"
#include "runtime-shim/refit/node_layer.h"
#include "runtime-shim/refit/router_fit.h"

namespace moepack::runtime {

// The cost of the choice for a token.
struct TokenChoice {
  std::vector<uint32_t> places;   // indexes into the node's experts
  std::vector<double> by_weight;  // dL/dw of each; L is |Y - y|^2 times the token's weight
  double error = 0;               // L
};

class RouterSample {
 public:
  // Draws tokens that count in the fit, and runs all experts on them.
  static Result<RouterSample> Make(Products& products, const RouterOptions& options,
                                   const NodeLayer& node);

  size_t size() const { return tokens_.size(); }
  const std::vector<float>& inputs() const { return inputs_; }  // of the router, [size, R]
  // The weight times |Y|^2.
  double target(size_t row) const { return targets_[row]; }
  // Lets the router choose by these logits [n] and this selection bias [n, or empty].
  Result<TokenChoice> Choose(const NodeLayer& node, size_t row, std::span<const float> logits,
                             std::span<const float> selection_bias) const;

 private:
  Status AddOutputs(Products& products, const NodeLayer& node, const NodeMatrices& matrices,
                    size_t first, size_t count);

  size_t experts_ = 0;
  std::vector<uint32_t> tokens_;
  std::vector<float> inputs_;
  std::vector<double> weights_, targets_;
  std::vector<float> with_target_;  // c: [size, n]
  std::vector<float> between_;      // M: [size, n, n]
};

}  // namespace moepack::runtime
