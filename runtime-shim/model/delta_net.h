// Gated delta net: the linear attention of Qwen3-Next and Qwen3.5, one token after another, in
// plain floats. Sources: "Gated Delta Networks" (arXiv 2412.06464), section 3; llama.cpp's
// src/models/qwen3next.cpp and qwen35moe.cpp for the order of operations.
//
// The host computes it for every executor, just as it chooses experts: a token changes a state of
// fixed size, not rows of a cache. Matrix products before and after it run on the executor.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime-shim/model/recurrence.h"

namespace moepack::runtime {

// The small tensors of a layer.
struct DeltaConstants {
  std::vector<float> kernel;  // channels x kernel, the latest token last
  std::vector<float> bias;    // ssm_dt.bias: one per value head
  std::vector<float> decay;   // ssm_a, below zero: one per value head
  std::vector<float> norm;    // width
  float eps = 0;
};

// The projections' results for one token.
struct DeltaToken {
  std::span<const float> mixed;        // channels: queries, keys, values
  std::span<const float> gate;         // values: z, whose silu multiplies the normed result
  std::span<const float> beta, alpha;  // one per value head: write strength and decay
};

// Adds a token to the state and writes what it reads, `values` numbers. REQUIRES: sizes fit the
// shape.
void StepDelta(const DeltaShape& shape, const DeltaConstants& constants, const DeltaToken& token,
               RecurrentState& state, std::span<float> out);

}  // namespace moepack::runtime
