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

// Tokens whose outputs of all experts are in memory at once.
inline constexpr size_t kTokensOfOutputs = 512;
// The bytes of a token of a sample: c, M and the router's inputs, R floats.
uint64_t RouterSampleBytes(uint64_t experts, uint64_t router_width);
// At least one token, and at most `most`.
uint64_t RouterSampleTokens(uint64_t token_bytes, uint64_t memory, uint64_t most);

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
  // Some tokens' rows; its memory is used again.
  struct OutputBlock {
    std::vector<float> inputs;
    std::vector<float> rows;  // outputs by expert, then targets: [n + 1, tokens, H]
  };
  Status AddOutputs(Products& products, const NodeLayer& node, const NodeMatrices& matrices,
                    size_t first, size_t count, OutputBlock& block);
  // Of token `at` of the sample: products between all outputs and the target, [n + 1, n + 1].
  void TakeProducts(size_t at, std::span<const float> between);

  size_t experts_ = 0;
  std::vector<uint32_t> tokens_;
  std::vector<float> inputs_;
  std::vector<double> weights_, targets_;
  std::vector<float> with_target_;  // c: [size, n]
  std::vector<float> between_;      // M: [size, n, n]
};

}  // namespace moepack::runtime
