// A node's layer in the memory of an executor that offers dense algebra: the rows of its tokens and
// its experts' values are moved there once for a step of the refit, and only results come back.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "libshard/base/result.h"
#include "runtime-shim/executor/dense_algebra.h"
#include "runtime-shim/refit/device_table.h"
#include "runtime-shim/refit/node_layer.h"

namespace moepack::runtime {

// The values of one expert; what the layer does not have has no buffer.
struct DeviceExpert {
  Rows gate, up, down;                 // [F, H], [F, H], [H, F]
  Rows gate_bias, up_bias, down_bias;  // one row each
  const Rows& first() const { return gate.buffer != nullptr ? gate : up; }
  const Rows& first_bias() const { return gate.buffer != nullptr ? gate_bias : up_bias; }
};

// The arrays of experts that a device has: their values on the host, those of one expert, and how
// wide their rows are. The bias of a matrix comes kMatrices after it.
struct ExpertArray {
  std::vector<float> RefittedExperts::*values;
  Rows DeviceExpert::*rows;
  uint64_t RefittedExperts::*columns;
};
inline constexpr size_t kMatrices = 3, kGate = 0, kUp = 1, kDown = 2;
inline constexpr ExpertArray kExpertArrays[2 * kMatrices] = {
    {&RefittedExperts::gate, &DeviceExpert::gate, &RefittedExperts::hidden},
    {&RefittedExperts::up, &DeviceExpert::up, &RefittedExperts::hidden},
    {&RefittedExperts::down, &DeviceExpert::down, &RefittedExperts::width},
    {&RefittedExperts::gate_bias, &DeviceExpert::gate_bias, &RefittedExperts::width},
    {&RefittedExperts::up_bias, &DeviceExpert::up_bias, &RefittedExperts::width},
    {&RefittedExperts::down_bias, &DeviceExpert::down_bias, &RefittedExperts::hidden},
};

// The tokens of an expert that are fitted: where they are among all of its tokens, and the roots of
// their weights.
struct FittedTokens {
  std::vector<uint32_t> tokens, positions;
  std::vector<float> roots;
};
FittedTokens FittedOf(const NodeLayer& node, const ExpertTokens& all);

// The mean of the diagonal of a square matrix.
Result<double> MeanDiagonalOf(DenseAlgebra& algebra, const Doubles& matrix);

class DeviceNode {
 public:
  // Null where the executor has no algebra, or no room for the node and `more` bytes
  // (Products::HasRoomFor). Borrows products and node.
  static Result<std::unique_ptr<DeviceNode>> Make(Products& products, NodeLayer& node,
                                                  uint64_t more);
  // Of its tokens and experts.
  static uint64_t BytesOf(const NodeLayer& node);

  Executor& executor() const { return products_.executor(); }
  DenseAlgebra& algebra() const { return *products_.algebra(); }
  NodeLayer& node() const { return node_; }
  // Of all tokens, [T, H].
  const Rows& inputs() const { return inputs_; }
  const Rows& targets() const { return targets_; }
  const Rows& outputs() const { return outputs_; }
  DeviceExpert expert(size_t place) const;

  // out = x weight' + bias
  void Project(const Rows& x, const Rows& weight, const Rows& bias, const Rows& out) const;
  // The factors of an expert's down projection for some tokens, with gates: out [t, F].
  Status Activations(const DeviceExpert& expert, const ExpertTokens& tokens, const Rows& out);
  // The residuals of these tokens, each times a factor: out [t, H].
  Status Residuals(std::span<const uint32_t> tokens, std::span<const float> factors,
                   const Rows& out);

  // Bring back what has changed.
  Status ReadExperts(std::span<const size_t> places) const;
  Status ReadDown(std::span<const size_t> places) const;
  Status ReadOutputs() const;

 private:
  DeviceNode(Products& products, NodeLayer& node) : products_(products), node_(node) {}
  Status LoadTokens(const RowStore& from, Rows& to);
  Status LoadExperts();
  Status ReadArray(const ExpertArray& array, size_t place) const;

  Products& products_;
  NodeLayer& node_;
  std::vector<BufferPtr> buffers_;
  Rows inputs_, targets_, outputs_;
  DeviceExpert all_;             // [n * F, H] and so on
  DeviceTable in_, up_, other_;  // of Activations, and of Residuals
};

}  // namespace moepack::runtime
