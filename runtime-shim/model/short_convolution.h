// The short convolution of LFM2, one token after another, in plain floats. Source: llama.cpp's
// src/models/lfm2.cpp (build_shortconv_block) for the order of operations.
//
// As with a delta net (recurrence.h), the host computes it for every executor.
#pragma once

#include <span>

#include "runtime-shim/model/recurrence.h"

namespace moepack::runtime {

// Adds a token to the state and writes what comes out, shape.width numbers. `projected` is the
// projection's result for it, `kernel` has shape.kernel numbers for each channel, the latest token
// last. REQUIRES: sizes fit the shape.
void StepConvolution(const ConvolutionShape& shape, std::span<const float> kernel,
                     std::span<const float> projected, RecurrentState& state, std::span<float> out);

}  // namespace moepack::runtime
