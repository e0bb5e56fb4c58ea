// Models of a few thousand random weights, made in memory as a loader would give them.
#pragma once

#include <memory>
#include <string>

#include "runtime-shim/model/weights.h"

namespace moepack::runtime {

// Two layers, width 32, vocabulary 40, 8 experts per layer, 2 per token; F32. `architecture` is one
// of AllRuntimeFamilies.
std::shared_ptr<Weights> TinyWeights(const std::string& architecture);

// The same model with only the experts `ids` of each layer in its set.
std::shared_ptr<Weights> WithExperts(const Weights& weights, const ExpertIds& ids);

// The same model with each expert's matrices in other memory, as a checkpoint has them in a file.
std::shared_ptr<Weights> WithExpertsApart(const Weights& weights);

// One value of a tensor, which may be changed.
float& ValueOf(Weights& weights, const std::string& name, size_t index);

}  // namespace moepack::runtime
