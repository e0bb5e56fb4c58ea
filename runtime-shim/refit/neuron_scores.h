// Scores neurons of other experts for an expert that could use them.
#pragma once

#include <cstdint>
#include <vector>

#include "libshard/base/result.h"
#include "runtime-shim/refit/node_layer.h"
#include "runtime-shim/refit/refill.h"

namespace moepack::runtime {

struct Neuron {
  uint32_t expert = 0, index = 0;
};

// Returns the `pool` neurons with the highest scores (refill.h), best first, from all experts but
// `self`. Every n-th row of the sample counts, so that there are about `scored_tokens`. If scores
// are equal, the lower expert and the lower index win.
Result<std::vector<Neuron>> BestNeurons(Products& products, const RefitOptions& options,
                                        const NeuronSource& source, const NodeLayer& node,
                                        uint32_t self, const ExpertSample& sample);

}  // namespace moepack::runtime
