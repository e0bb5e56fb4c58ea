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

// What an expert needs to run, used by one thread at a time: products, and memory for gradients.
struct TunedScratch {
  Products& products;
  std::vector<float> by_activation, by_matrix;
};

// Borrows the node.
class TunedExpert {
 public:
  // If `changes` is false, Back leaves the expert as it is. `jobs`: threads of a step.
  TunedExpert(NodeLayer& node, size_t place, bool changes, size_t jobs);

  // The inputs of t tokens, [t, H], for the caller to fill in; gates that weigh inputs are in them.
  std::span<float> Inputs(size_t tokens);
  // Runs the expert on the inputs, which it keeps until Back.
  Status Run(TunedScratch& scratch);
  // The outputs of the last Run, [t, H], without gates; Back expects the gradient with respect to
  // the sum of all experts in their place.
  std::span<float> outputs() { return outputs_; }
  // Moves the expert's values. `factors`, [t]: what its outputs are multiplied by in the sum of all
  // experts. Returns the gradient with respect to them.
  Result<std::vector<double>> Back(std::span<const float> factors, double rate,
                                   TunedScratch& scratch);

 private:
  bool gated() const { return !node_.experts.gate.empty(); }
  std::span<float> Part(std::vector<float> RefittedExperts::*array) const;
  // What moves the values: how far, and by what means.
  struct Movement {
    double rate;
    TunedScratch& scratch;
  };
  // The gradients of outputs and activations, times the factors, become those of the expert's own
  // values.
  Status Move(const Movement& movement);
  // The matrix's gradient is left' right, and its bias's the sum of the rows of `left`.
  Status MoveLinear(TunedArray& weight, TunedArray& bias, const FloatTable& left,
                    const FloatTable& right, const Movement& movement);

  NodeLayer& node_;
  size_t place_;
  bool changes_;
  TunedArray gate_, up_, down_, gate_bias_, up_bias_, down_bias_;
  // Of the tokens of the last Run: [t, H] each, and [t, F] each. The slopes are those of the
  // activations with respect to the projection that is activated, and to the other one.
  std::vector<float> inputs_, outputs_, activations_, first_slopes_, second_slopes_;
};

}  // namespace moepack::runtime
