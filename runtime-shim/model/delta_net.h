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

// Query and key heads are `key_heads`, value heads a multiple of them; all are `width` wide.
struct DeltaShape {
  uint32_t key_heads = 0, value_heads = 0, width = 0;
  uint32_t kernel = 0;  // tokens that the convolution sees
  // Value head h belongs to key head h % key_heads (Qwen3.5), otherwise to h / (value heads per key
  // head).
  bool tiled = false;

  uint32_t channels() const { return (2 * key_heads + value_heads) * width; }
  uint32_t values() const { return value_heads * width; }
  // Each value head has a matrix of `width` rows (keys) and columns (values).
  RecurrentShape state() const { return {kernel, channels(), uint64_t{values()} * width}; }
  uint32_t KeyHeadOf(uint32_t head) const {
    return tiled ? head % key_heads : head / (value_heads / key_heads);
  }
  bool operator==(const DeltaShape&) const = default;
};

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
