// Steps 2 and 3 of a refill (refill.h) in the memory of an executor with dense algebra: of an
// expert's own neurons and those that join it, the ones that matter least are removed again.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "libshard/base/result.h"
#include "runtime-shim/refit/device_node.h"
#include "runtime-shim/refit/node_layer.h"

namespace moepack::runtime {

// The neurons with the largest costs, `count` of them and ascending: `costs` has one for each of
// `kept`.
std::vector<size_t> KeepLargest(std::span<const double> costs, std::span<const size_t> kept,
                                size_t count);
// How many of a refill's neurons are left after a round of removal, counted from 0.
size_t LeftAfterRound(size_t own, size_t joined, uint32_t round);
// The rounds: costs change once neurons are gone, so half of them go first, and the others by new
// costs.
inline constexpr uint32_t kRoundsOfRemoval = 2;

class DeviceRefill {
 public:
  // Null where DeviceNode is. Borrows products and node, whose routes and outputs match the
  // experts. `joining`: how many neurons join an expert at most.
  static Result<std::unique_ptr<DeviceRefill>> Make(Products& products, NodeLayer& node,
                                                    uint64_t joining);

  // Chooses among the neurons of the expert at this place and those of `others`, which come after
  // them: the numbers of those that stay, ascending; none if no neuron fires. kInvalidArgument for
  // a matrix that is not positive definite.
  Result<std::vector<size_t>> Choose(size_t place, const RefittedExperts& others, double lambda);
  // Takes gate and up of the expert from the node, which has those of the last choice now, and
  // leaves the down projection there. Returns by how much the outputs of all its tokens change,
  // [t, H].
  Result<std::vector<float>> Put(size_t place);

 private:
  explicit DeviceRefill(std::unique_ptr<DeviceNode> device)
      : device_(std::move(device)), all_(TokensOfExperts(device_->node(), false)) {}
  Executor& executor() const { return device_->executor(); }
  DenseAlgebra& algebra() const { return device_->algebra(); }

  Result<DeviceExpert> Load(const RefittedExperts& others);
  // Sets joined_ and part_, what the expert adds to the outputs without the bias of its down
  // projection.
  Status Join(size_t place, const RefittedExperts& others);
  // Sets matrix_ and sides_: phi'phi and phi'(r + own part) of the joined neurons.
  Status MakeNormal(size_t place);
  // Solves for these neurons alone, and leaves the rows of the projection, turned, in solution_.
  // False if their matrix is not positive definite.
  Result<bool> SolveFor(std::span<const size_t> kept);
  // By how much the error grows without each of them.
  Result<std::vector<double>> CostsOf();

  const std::unique_ptr<DeviceNode> device_;
  const std::vector<ExpertTokens> all_;
  std::vector<BufferPtr> others_;  // of Load
  Rows joined_, part_;
  Doubles matrix_, sides_, factor_, solution_;
  DeviceTable joined_table_, part_table_, scaled_, rows_, fitted_part_, own_, moved_;
  DeviceTable matrix_table_, sides_table_, factor_table_, solution_table_, inverse_, squares_;
};

}  // namespace moepack::runtime
