// The experts of a node during a tuning (tune.h): what they make of a batch of tokens, and how they
// move. On the host they are as many TunedExperts; an executor with dense algebra holds values,
// moments, tokens and activations itself, so that an update moves only the router's matrix and the
// routes there, and logits, norms and the gradients of gates and of the router back.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "libshard/base/result.h"
#include "runtime-shim/refit/device_node.h"
#include "runtime-shim/refit/node_layer.h"

namespace moepack::runtime {

// The tokens of a batch that chose an expert: their rows, and their choices in the batch's routes.
struct ExpertChoices {
  std::vector<uint32_t> rows;
  std::vector<size_t> choices;
};
// By place.
std::vector<ExpertChoices> ChoicesOf(const Routes& routes, size_t experts);

// What is missed of the target of a token, |y - Y|^2, and |Y|^2.
struct TokenSquares {
  double missed = 0, target = 0;
};

class TunedNode {
 public:
  virtual ~TunedNode() = default;
  // The logits of these tokens, as in a forward pass.
  virtual Result<std::vector<float>> Logits(std::span<const uint32_t> tokens) = 0;
  // by_logit' h for the tokens of the last Logits, with the inputs h of the router: [n, R].
  virtual Result<std::vector<double>> RouterGradient(std::span<const float> by_logit) = 0;
  // Runs the experts on these tokens, with the routes of each.
  virtual Status Run(std::span<const uint32_t> tokens, const Routes& routes) = 0;
  // Of each token of the last Run.
  virtual Result<std::vector<TokenSquares>> Measure() = 0;
  // Moves the changing experts against the gradient of the loss, which is `factors` times y - Y
  // with respect to each y of the last Run. Returns the gradient with respect to each gate of the
  // routes.
  virtual Result<std::vector<double>> Move(std::span<const float> factors, double rate) = 0;
  // Leaves the values in the node.
  virtual Status Finish() = 0;
};

// How many of these experts the host runs at once, with so many jobs.
size_t ExpertsAtOnce(size_t jobs, size_t experts);

// Both borrow products and node. `changing`: the places of experts that Move moves, ascending.
std::unique_ptr<TunedNode> TuneOnHost(Products& products, NodeLayer& node,
                                      std::span<const size_t> changing);
// For at most so many tokens at once. Null where DeviceNode is.
Result<std::unique_ptr<TunedNode>> TuneOnDevice(Products& products, NodeLayer& node,
                                                std::span<const size_t> changing, size_t tokens);

}  // namespace moepack::runtime
