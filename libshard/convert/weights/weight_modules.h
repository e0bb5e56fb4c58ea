// Assembles a model's tensors into weights: codes with their scales, zero points and shapes, from
// whatever files they are in.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/convert/weights/weight.h"
#include "libshard/model/model.h"

namespace moepack {

struct WeightModule {
  StoredWeight weight;
  // The tensor of the codes; if companions have none, one of them.
  const ModelTensor* tensor = nullptr;
};

// In the order of their first tensors. Borrows the model. kCorrupt if two tensors are the same part
// of one weight.
Result<std::vector<WeightModule>> CollectWeights(const MoeModel& model);

// What a family's table may call the module, in this order: the name without the family's prefix,
// with {L} and {E} for the numbers of layer and expert, and with "weight" (or nothing) as the leaf
// of a quantized weight.
std::vector<std::string> PatternsOf(const MoeModel& model, const WeightModule& module);

}  // namespace moepack
