// What layers with a state instead of keys and values have in common: the state, the convolution
// over the last tokens, and their activations, in plain floats.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "libshard/graph/shapes.h"

namespace moepack::runtime {

// What a session stores of a layer's past: the last kernel - 1 tokens before the convolution, the
// oldest first, and for each head a matrix (delta_net.h, mamba.h).
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
// log(1 + exp(x)); above 20 it is x in 32 bits, as in ggml.
inline float Softplus(float x) { return x > 20 ? x : std::log(1 + std::exp(x)); }

}  // namespace moepack::runtime
