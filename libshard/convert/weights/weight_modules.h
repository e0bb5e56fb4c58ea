// The tensors of a model put together to weights: codes with their scales, zero points and shapes,
// from whatever files they are in.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/convert/weights/weight.h"
#include "libshard/model/model.h"

namespace moepack {

struct WeightModule {
  StoredWeight weight;
  // That of the codes; of companions that have none, one of them.
  const ModelTensor* tensor = nullptr;
  // What a family's table may call it, in this order: the name without the family's prefix, with
  // {L} and {E} for the numbers of layer and expert, and of a quantized weight "weight" (or
  // nothing) for its leaf.
  std::vector<std::string> patterns;
};

// In the order of their first tensors. Borrows the model. kCorrupt for two tensors of one weight
// that are the same part of it.
Result<std::vector<WeightModule>> CollectWeights(const MoeModel& model);

}  // namespace moepack
