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

// Decodes gate and up of these neurons of one expert, with their biases, in the order given: an
// expert of that width without anything else. Errors are those of ReadSourceExperts.
Result<RefittedExperts> ReadNeurons(const Weights& weights, std::span<const ExpertSet> sets,
                                    uint32_t layer, uint32_t id, std::span<const uint32_t> neurons);

// Leaves only the experts at these places, ascending.
RefittedExperts TakeExperts(const RefittedExperts& from, std::span<const size_t> places);
// Copies the experts of `from`, which `to` also has, into their places. Arrays that `from` lacks
// stay.
void PutExperts(const RefittedExperts& from, RefittedExperts& to);

// The same with the experts that the store has for the layer and group of `node`, if any. kMismatch
// for other experts than those of the node, or of another size.
Status PutStored(const RefitStore& store, RefittedExperts& node);

// Matrices of the values on an executor, which may borrow them: recreate them after a change.
struct NodeMatrices {
  std::vector<MlpWeights> experts;  // in the order of the values
  Linear router;
  std::vector<BufferPtr> buffers;
};
Result<NodeMatrices> LoadMatrices(const RefittedExperts& values, Executor& executor);
// Of one expert alone, at this place: `experts` has one entry, and there is no router.
Result<NodeMatrices> LoadExpert(const RefittedExperts& values, size_t place, Executor& executor);
// Of the router alone.
Result<NodeMatrices> LoadRouter(const RefittedExperts& values, Executor& executor);

}  // namespace moepack::runtime
