// How much noise the types of a whole model add to what its matrices compute, and what measuring
// that takes from a model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "libshard/base/files/byte_source.h"
#include "libshard/base/result.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/model/model.h"
#include "libshard/recipe/quantize.h"

namespace moepack {

// The files of the model's checkpoint, in its order. kUnsupported, with its name, for a checkpoint
// that has no weights: an index or a config alone.
Result<std::vector<ByteSourcePtr>> OpenWeights(const MoeModel& model);

// How many tokens took part in each slice (expert) of the tensor, where the importance matrix knows
// it; else empty. It borrows from `typed`.
std::span<const float> SliceWeights(const TypedGguf& typed, const GgufTensor& tensor);

// The sum of MeasureDamage over all matrices, each in its type: 0 for matrices whose bytes, or
// whose grid, stay as the source has them. On `sample_rows` of every matrix (DamageSample), by
// `jobs` threads; the result is the same for every number of them. REQUIRES: `typed` was made of
// the model. Errors of OpenWeights and of MeasureDamage.
Result<double> DamageOfTypes(const MoeModel& model, const TypedGguf& typed, uint32_t sample_rows,
                             size_t jobs);

}  // namespace moepack
