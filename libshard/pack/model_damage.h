// Estimates how much noise the types of a whole model add to what its matrices compute.
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
// without weights: an index or a config alone.
Result<std::vector<ByteSourcePtr>> OpenWeights(const MoeModel& model);

// How many tokens took part in each slice (expert) of the tensor, if the importance matrix knows;
// otherwise empty. Borrows from `typed`.
std::span<const float> SliceWeights(const TypedGguf& typed, const GgufTensor& tensor);

// The sum of MeasureDamage over all matrices, each in its type: 0 for matrices that keep the
// source's bytes or grid. Measured on `sample_rows` rows of every matrix (DamageSample), by `jobs`
// threads; their number does not change the result. REQUIRES: `typed` was made from the model.
// Errors of OpenWeights and of MeasureDamage.
Result<double> DamageOfTypes(const MoeModel& model, const TypedGguf& typed, uint32_t sample_rows,
                             size_t jobs);

}  // namespace moepack
