// The embedding of n-grams of Qwen4-Exp, one token after another, in plain floats. Sources:
// llama.cpp's src/models/qwen4exp.cpp (llm_graph_input_ple, build_ple) for the hash and the order
// of operations.
//
// As with a delta net (recurrence.h), the host computes it for every executor: what a token adds to
// the residual streams depends on a state. Matrix products and norms before it run on the executor.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libshard/graph/shapes.h"
#include "runtime-shim/model/recurrence.h"

namespace moepack::runtime {

// Returns the rows of the table that the n-grams which end at the last of `tokens` pick: for each
// length from 2 on those of all heads. Before the first token, and before and at shape.end, every
// token reads as shape.end; the last token itself is always read. REQUIRES: there is a token.
std::vector<uint32_t> NgramRows(const NgramShape& shape, std::span<const uint32_t> tokens);

struct NgramConstants {
  std::vector<float> norm;    // of what the convolution sees: one per channel
  std::vector<float> kernel;  // channels x shape.kernel, the latest token last
  float eps = 0;
};

// What a token has: normed projections of its embedded n-grams and of the residual streams, as wide
// as these, and a projection as wide as one stream.
struct NgramToken {
  std::span<const float> keys, queries;
  std::span<const float> value;
};

// Adds a token to the state and writes what it adds to the residual streams, shape.channels
// numbers. REQUIRES: sizes fit the shape; the channels are a multiple of the value.
void StepNgrams(const NgramShape& shape, const NgramConstants& constants, const NgramToken& token,
                RecurrentState& state, std::span<float> out);

}  // namespace moepack::runtime
