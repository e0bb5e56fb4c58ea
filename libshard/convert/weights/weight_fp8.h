// Codes of one byte with scales beside them: F8_E4M3 or I8, with one scale per block, row, matrix
// or tensor (DeepSeek, Qwen, Mistral, compressed-tensors).
#pragma once

#include <string_view>

#include "libshard/convert/weights/weight.h"

namespace moepack {

// "weight_scale_inv" is multiplied like the others, whatever its name says.
inline constexpr std::string_view kScaleLeaves[] = {"weight_scale_inv", "weight_scale", "scale_inv",
                                                    "scale", "qscale_weight"};

// value = code * scale, in F32; scales are F32, BF16, F16 or powers of two (F8_E8M0). With blocks
// of B x C (WeightConfig) the scales of a matrix [rows, columns] are [ceil(rows / B), ceil(columns
// / C)]; packed experts have one such matrix each. Without blocks, they apply to the weight's
// leading dimensions: [rows], [rows, 1], [experts], [experts, 1, 1], [1]. Implausible scales are
// refused when rows are decoded (RowReader::Decode); a code that is NaN stays NaN, which the
// packing run counts.
Result<Weight> ReadScaledWeight(const WeightSource& source, const StoredWeight& stored);

}  // namespace moepack
