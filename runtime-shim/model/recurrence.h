// What layers with a state instead of keys and values have in common: the state, the convolution
// over the last tokens, and their activations, in plain floats.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace moepack::runtime {

// The sizes of such a state.
struct RecurrentShape {
  uint32_t kernel = 0;    // tokens that the convolution sees
  uint32_t channels = 0;  // that it runs over
  uint64_t memory = 0;    // numbers of the matrices of all heads
  // Of the whole state.
  uint64_t values() const { return uint64_t{std::max(kernel, 1u) - 1} * channels + memory; }
};

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
