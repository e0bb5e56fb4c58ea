// Layers with a state instead of keys and values, in plain floats: what they have in common (the
// state, the convolution over the last tokens, activations), the gated delta net, and Mamba-2.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "libshard/graph/shapes.h"

namespace moepack::runtime {

// What a session stores of a layer's past: the last kernel - 1 tokens before the convolution, the
// oldest first, and for each head a matrix.
struct RecurrentState {
  std::vector<float> window;  // (kernel - 1) x channels
  std::vector<float> memory;
  uint32_t length = 0;  // tokens that went into it

  // Makes the state of no tokens.
  void Clear(const RecurrentShape& shape);
};

// kernel: channels x shape.kernel, the latest token last. bias: one per channel, or empty.
struct Convolution {
  std::span<const float> kernel, bias;
};
// Returns silu(convolution + bias) of the tokens in the state and of `token`, and advances the
// state's window. REQUIRES: `token` has shape.channels values.
std::vector<float> Convolve(const RecurrentShape& shape, const Convolution& convolution,
                            std::span<const float> token, RecurrentState& state);

inline float RecurrentSilu(float x) { return x / (1 + std::exp(-x)); }
inline float RecurrentSigmoid(float x) { return 1 / (1 + std::exp(-x)); }
// log(1 + exp(x)); above 20 it is x in 32 bits, as in ggml.
inline float Softplus(float x) { return x > 20 ? x : std::log(1 + std::exp(x)); }

// Gated delta net: the linear attention of Qwen3-Next and Qwen3.5, one token after another, in
// plain floats. Sources: "Gated Delta Networks" (arXiv 2412.06464), section 3; llama.cpp's
// src/models/qwen3next.cpp and qwen35moe.cpp for the order of operations.
//
// The host computes it for every executor, just as it chooses experts: a token changes a state of
// fixed size, not rows of a cache. Matrix products before and after it run on the executor.

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
  std::span<const float> gate;         // values: z, which gates the normed result
  std::span<const float> beta, alpha;  // one per value head: write strength and decay
};

// Adds a token to the state and writes what it reads, `values` numbers. REQUIRES: sizes fit the
// shape.
void StepDelta(const DeltaShape& shape, const DeltaConstants& constants, const DeltaToken& token,
               RecurrentState& state, std::span<float> out);

// Scales the vector to length `length`, with `eps` added to the square of its own, as llama.cpp
// does.
void NormalizeTo(float length, float eps, std::span<float> values);

// One head of a delta net for one token. `kept` is what remains of each row of its matrix.
struct DeltaHead {
  std::span<const float> query, key, value;
  std::vector<float> kept;
  float strength = 0;
};
// `memory` is the head's matrix, as wide and high as the key; `out` gets what the query reads.
void StepDeltaHead(const DeltaHead& head, std::span<float> memory, std::span<float> out);

// Mamba-2: the recurrence of Nemotron-H, one token after another, in plain floats. Sources:
// "Transformers are SSMs" (arXiv 2405.21060); llama.cpp's src/models/mamba-base.cpp
// (build_mamba2_layer) and ggml's ssm_scan for the order of operations.
//
// As with a delta net, the host computes it for every executor.

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
