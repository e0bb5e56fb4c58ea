// Rounds the inputs of a product as llama.cpp's CPU kernels do before they multiply: to the type
// that the kernel for the weights' type expects.
#pragma once

#include <span>

#include "quant/format.h"

namespace moepack::runtime {

// Rounds one row in place for weights of `format`: to q8_K (one scale for 256 values) for k-quants
// and iq4_xs, to q8_0 (one for 32 values) for other blocks, and to f16 or bf16 for these types.
// With f32 weights the row does not change. Source: ggml's type_traits_cpu table (vec_dot_type) and
// quantize_row_q8_K.
void RoundAsLlamaCpp(const quant::Format* format, std::span<float> row);

}  // namespace moepack::runtime
