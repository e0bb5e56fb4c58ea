// Kimi delta attention (KDA): the recurrence of Ling 3.0 and Kimi-K3, one token after another, in
// plain floats. Sources: "Kimi Linear" (arXiv 2510.26692), section 3; llama.cpp's
// src/models/bailingmoe3.cpp for the order of operations.
//
// As with a delta net (recurrence.h), from which it differs in its decay and in the function of its
// gate, the host computes it for every executor.
#pragma once

#include <span>
#include <vector>

#include "libshard/graph/shapes.h"
#include "runtime-shim/model/recurrence.h"

namespace moepack::runtime {

// The small tensors of a layer.
struct KdaConstants {
  std::vector<float>
      kernel;               // of queries, keys and values: channels x kernel, the latest token last
  std::vector<float> bias;  // ssm_dt.bias: one per value
  std::vector<float> rate;  // ssm_a, above zero: one per head
  std::vector<float> norm;  // width
  float eps = 0;
};

// The projections' results for one token.
struct KdaToken {
  std::span<const float> queries, keys, values;
  std::span<const float> decay, gate;  // as many; gate's sigmoid multiplies the normed result
  std::span<const float> strength;     // one per head: how much is written
};

// Adds a token to the state and writes what it reads, shape.values() numbers. REQUIRES: sizes fit
// the shape.
void StepKda(const KdaShape& shape, const KdaConstants& constants, const KdaToken& token,
             RecurrentState& state, std::span<float> out);

}  // namespace moepack::runtime
