// The experts that one node has in one layer: their values, and the same on an executor.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/refit/refit_store.h"
#include "runtime-shim/executor/executor.h"
#include "runtime-shim/model/weights.h"

namespace moepack::runtime {

// Decodes these experts of a layer, with their router rows and biases, as far as the weights have
// them. kNotFound for an expert that no set holds.
Result<RefittedExperts> ReadSourceExperts(const Weights& weights, std::span<const ExpertSet> sets,
                                          uint32_t layer, const ExpertIds& ids);

// Leaves only the experts at these indexes, ascending.
RefittedExperts TakeExperts(const RefittedExperts& from, std::span<const size_t> places);
// Copies the experts of `from`, which `to` also has, into their places. Arrays that `from` lacks
// stay.
void PutExperts(const RefittedExperts& from, RefittedExperts& to);

// Matrices of the values on an executor, which may borrow them: recreate them after a change.
struct NodeMatrices {
  std::vector<MlpWeights> experts;  // in the order of the values
  Linear router;
  std::vector<BufferPtr> buffers;
};
Result<NodeMatrices> LoadMatrices(const RefittedExperts& values, Executor& executor);

}  // namespace moepack::runtime
