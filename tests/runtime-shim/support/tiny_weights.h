// Models of a few thousand random weights, made in memory: what a loader would give.
#pragma once

#include <memory>
#include <string>

#include "runtime-shim/model/weights.h"

namespace moepack::runtime {

// Two layers, width 32, vocabulary 40, 8 experts per layer, 2 per token; F32. `architecture` is one
// of AllRuntimeFamilies.
std::shared_ptr<Weights> TinyWeights(const std::string& architecture);

// The same model with only experts `ids` of each layer in its set.
std::shared_ptr<Weights> WithExperts(const Weights& weights, const ExpertIds& ids);

// One value of a tensor, to be changed.
float& ValueOf(Weights& weights, const std::string& name, size_t index);

}  // namespace moepack::runtime
