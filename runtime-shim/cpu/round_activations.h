// Rounds the inputs of a product as llama.cpp's CPU kernels do before they multiply: to the type
// that their dot product with the weights' type takes.
#pragma once

#include <span>

#include "quant/format.h"

namespace moepack::runtime {

// Rounds one row in place, as it is rounded for weights of `format`: q8_K (one scale for 256
// values) for k-quants and iq4_xs, q8_0 (for 32 values) for other blocks, f16 and bf16 for
// themselves. With weights in f32 the row does not change. Source: ggml's type_traits_cpu table
// (vec_dot_type) and quantize_row_q8_K.
void RoundAsLlamaCpp(const quant::Format* format, std::span<float> row);

}  // namespace moepack::runtime
