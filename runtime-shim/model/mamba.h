// Mamba-2: the recurrence of Nemotron-H, one token after another, in plain floats. Sources:
// "Transformers are SSMs" (arXiv 2405.21060); llama.cpp's src/models/mamba-base.cpp
// (build_mamba2_layer) and ggml's ssm_scan for the order of operations.
//
// As with a delta net (delta_net.h), the host computes it for every executor.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime-shim/model/recurrence.h"

namespace moepack::runtime {

// The small tensors of a layer.
struct MambaConstants {
  std::vector<float> kernel, kernel_bias;  // Convolution; the bias may be empty
  std::vector<float> step_bias;            // ssm_dt.bias: one per head
  std::vector<float> decay;                // ssm_a, below zero: one per head
  std::vector<float> skip;                 // ssm_d: one per head
  std::vector<float> norm;                 // inner, each group with a norm of its own
  float eps = 0;
};

// Adds a token to the state and writes what it reads, shape.inner() numbers. `projected` is the
// projection's result for it. REQUIRES: sizes fit the shape.
void StepMamba(const MambaShape& shape, const MambaConstants& constants,
               std::span<const float> projected, RecurrentState& state, std::span<float> out);

}  // namespace moepack::runtime
