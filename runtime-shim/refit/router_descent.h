// Gradient descent of a node's router.
#pragma once

#include <span>
#include <vector>

#include "libshard/base/result.h"
#include "runtime-shim/gradient/adam.h"
#include "runtime-shim/refit/node_layer.h"

namespace moepack::runtime {

// Moves the rows and the bias of the experts that are not fixed. Borrows products and node.
class RouterDescent {
 public:
  RouterDescent(Products& products, NodeLayer& node);

  // One step, from the inputs of some tokens [tokens, R] and the gradient of the loss with respect
  // to their logits [tokens, n]. Each value moves by about its rate.
  Status Step(std::span<const float> inputs, std::span<const float> by_logit, double rate_of_rows,
              double rate_of_bias);
  // The same where the gradient with respect to the rows, by_logit' inputs, is known: [n, R].
  void StepBy(std::vector<double> by_row, std::span<const float> by_logit, double rate_of_rows,
              double rate_of_bias);

 private:
  Products& products_;
  NodeLayer& node_;
  Adam rows_, bias_;
  std::vector<double> by_bias_;
};

}  // namespace moepack::runtime
