// A refill (refill.h) in the memory of an executor with dense algebra: the neurons of other experts
// are decoded there, measured, joined with those of an expert, and those that matter least removed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "libshard/base/result.h"
#include "runtime-shim/refit/device_node.h"
#include "runtime-shim/refit/neuron_scores.h"
#include "runtime-shim/refit/node_layer.h"
#include "runtime-shim/refit/refill.h"

namespace moepack::runtime {

class DeviceRefill {
 public:
  // Null where DeviceNode is, or for too many neurons. Borrows products, what the source points to,
  // and node, whose routes and outputs match the experts. `pool`: how many neurons join an expert.
  static Result<std::unique_ptr<DeviceRefill>> Make(Products& products, const NeuronSource& source,
                                                    uint64_t pool, NodeLayer& node);
  // With its node; at most.
  static uint64_t BytesOf(const NodeLayer& node, uint64_t pool);

  // Steps 1 (exact scores of the candidates) to 3 for the expert at this place. Leaves the new
  // expert in the node. kInvalidArgument for a matrix that is not positive definite.
  Result<RefilledExpert> Run(size_t place, std::span<const Neuron> candidates, double lambda);

 private:
  DeviceRefill(std::unique_ptr<DeviceNode> device, const NeuronSource& source, uint64_t pool)
      : device_(std::move(device)),
        source_(source),
        pool_(pool),
        all_(TokensOfExperts(device_->node(), false)),
        fit_(TokensOfExperts(device_->node(), true)) {}
  Executor& executor() const { return device_->executor(); }
  DenseAlgebra& algebra() const { return device_->algebra(); }

  // Neurons on the device; each part is a table of its own.
  struct Neurons {
    size_t count = 0;
    DeviceExpert rows;
    DeviceTable gate, up, gate_bias, up_bias;
  };
  struct NeuronPart {
    Linear MlpWeights::*linear;
    DeviceTable Neurons::*weights;
    DeviceTable Neurons::*biases;
    Rows DeviceExpert::*rows;
    Rows DeviceExpert::*bias;
  };
  static const NeuronPart kNeuronParts[2];

  // Sets candidates_, expert after expert; returns the row of each candidate there.
  Result<std::vector<uint32_t>> LoadCandidates(std::span<const Neuron> candidates);
  Status LoadPart(const NeuronPart& part, std::span<const Neuron> neurons);
  // |phi'r| and |phi| of each row of candidates_.
  Result<std::vector<NeuronSize>> MeasureCandidates(size_t place);
  // Sets others_ to these rows of candidates_.
  Status TakeOthers(std::span<const uint32_t> rows);

  // Sets joined_ and part_, what the expert adds to the outputs without the bias of its down
  // projection.
  Status Join(size_t place);
  // Sets matrix_ and sides_: phi'phi and phi'(r + own part) of the joined neurons.
  Status MakeNormal(size_t place);
  // The numbers of the neurons that stay, ascending: the expert's own, and from their number on
  // those of others_. None if no neuron fires.
  Result<std::vector<size_t>> Choose(size_t place, double lambda);
  // Solves for these neurons alone, and leaves the rows of the projection, turned, in solution_.
  // False if their matrix is not positive definite.
  Result<bool> SolveFor(std::span<const size_t> kept);
  // By how much the error grows without each of them.
  Result<std::vector<double>> CostsOfKept();
  // Puts the neurons that stay in place of the expert's own; returns by how much outputs change.
  Result<std::vector<float>> Put(size_t place, std::span<const size_t> kept);
  Status PutRows(std::span<const size_t> kept, const Rows& own, const Rows& others);

  const std::unique_ptr<DeviceNode> device_;
  const NeuronSource source_;
  const uint64_t pool_;
  const std::vector<ExpertTokens> all_, fit_;
  Neurons candidates_, others_;
  Rows joined_, part_;
  Doubles matrix_, sides_, factor_, solution_;
  DeviceTable joined_table_, part_table_, scaled_, rows_, own_, moved_;
  DeviceTable matrix_table_, sides_table_, factor_table_, solution_table_, inverse_, squares_;
};

}  // namespace moepack::runtime
