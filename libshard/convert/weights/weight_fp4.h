// Weights of 4-bit floating-point codes: MXFP4 and NVFP4.
#pragma once

#include "libshard/convert/weights/weight.h"

namespace moepack {

// "blocks" U8 [..., rows, groups, 16] and "scales" U8 [..., rows, groups] are a weight [..., rows,
// groups * 32]. Byte j of a block has value 2j in its low half and 2j + 1 in its high half; the
// scale is 2^(byte - 127). ggml's mxfp4 has the same codes and scales in another order: the reader
// repacks them bit by bit. A scale of 255, which the format defines as NaN, decodes to NaN;
// repacking keeps it.
Result<Weight> ReadMxfp4Weight(const WeightSource& source, const StoredWeight& stored);

// Whether the tensors are MXFP4 in rows, below. Where the config does not say so (DeepSeek-V4), the
// types do: I8 beside F8_E8M0.
bool IsMxfp4Rows(const WeightSource& source, const StoredWeight& stored);
// The same with whole rows: "weight_packed" (compressed-tensors) or "weight" (Quark, DeepSeek-V4)
// U8 or I8 [..., columns / 2], and "weight_scale" or "scale" U8 or F8_E8M0 [..., columns / 32].
Result<Weight> ReadMxfp4Rows(const WeightSource& source, const StoredWeight& stored);

// NVFP4 as NVIDIA's ModelOpt and compressed-tensors store it: packed codes, a scale for every 16 of
// them, and one for the whole tensor.

// The scale of the whole tensor, F32: values are multiplied by ModelOpt's and divided by that of
// compressed-tensors.
inline constexpr std::string_view kNvfp4TensorLeaves[] = {"weight_scale_2", "weight_global_scale"};

// "weight" (or "weight_packed") U8 [..., columns / 2] and "weight_scale" F8_E4M3 [..., columns /
// 16] are a weight [..., columns]. Byte j of a row has value 2j in its low half and 2j + 1 in its
// high half; the codes are those of MXFP4 (E2M1). Values are code x scale, which is exact in F32,
// times the tensor's scale.
Result<Weight> ReadNvfp4Weight(const WeightSource& source, const StoredWeight& stored);

}  // namespace moepack
