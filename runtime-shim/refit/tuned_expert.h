// One expert of a node during a tuning (tune.h): its outputs, and the gradient of a loss.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "libshard/base/result.h"
#include "runtime-shim/gradient/adam.h"
#include "runtime-shim/refit/node_layer.h"

namespace moepack::runtime {

// Values that move by a share of their size (RelativeRate).
class TunedArray {
 public:
  TunedArray(std::span<float> values, size_t jobs);
  bool empty() const { return values_.empty(); }
  void Step(double share, std::span<const float> gradient);
  void Step(double share, std::span<const double> gradient);

 private:
  std::span<float> values_;
  RelativeRate rate_;
  Adam adam_;
};

// Borrows products and node.
class TunedExpert {
 public:
  // If `changes` is false, Back leaves the expert as it is.
  TunedExpert(Products& products, NodeLayer& node, size_t place, bool changes);

  // Runs the expert on the inputs of t tokens [t, H], which it keeps until Back; outputs [t, H] are
  // without gates. Gates that weigh inputs are already in them.
  Status Run(std::vector<float> inputs, std::span<float> outputs);
  // Takes the gradient with respect to the sum of all experts, [t, H], to which this one adds its
  // outputs times `factors`, and moves the expert's values. Returns the gradient with respect to
  // the factors, [t]. `scratch` is for the gradient of one matrix.
  Result<std::vector<double>> Back(std::vector<float> by_sum, std::span<const float> factors,
                                   double rate, std::vector<float>& scratch);

 private:
  bool gated() const { return !node_.experts.gate.empty(); }
  std::span<float> Part(std::vector<float> RefittedExperts::*array) const;
  // What moves the values: how far, and memory for a gradient.
  struct Movement {
    double rate;
    std::vector<float>& scratch;
  };
  // by_sum and by_activation times the factors become gradients of the expert's own values.
  Status Move(std::span<float> by_sum, std::span<float> by_activation, const Movement& movement);
  // The matrix's gradient is left' right, and its bias's the sum of the rows of `left`.
  Status MoveLinear(TunedArray& weight, TunedArray& bias, const FloatTable& left,
                    const FloatTable& right, const Movement& movement);

  Products& products_;
  NodeLayer& node_;
  size_t place_;
  bool changes_;
  TunedArray gate_, up_, down_, gate_bias_, up_bias_, down_bias_;
  // Of the tokens that Run got: [t, H], and [t, F] each. The slopes are those of the activations
  // with respect to the projection that is activated, and to the other one.
  std::vector<float> inputs_, activations_, first_slopes_, second_slopes_;
};

}  // namespace moepack::runtime
