// For each token and value head, with S the head's matrix:
//
//   q, k, v = silu(convolution of the last `kernel` tokens);  q, k = q / |q|, k / |k|
//   S = exp(decay * softplus(alpha + bias)) * S
//   S = S + k (sigmoid(beta) * (v - S^T k))^T
//   o = S^T q / sqrt(width)
//   out = norm(o) * silu(gate)
#include "runtime-shim/model/delta_net.h"

#include <algorithm>
#include <cmath>

namespace moepack::runtime {
namespace {

float SigmoidOf(float x) { return 1 / (1 + std::exp(-x)); }

// Scales the vector to length `length`; ggml's l2_norm.
void Normalize(std::span<float> values, float eps, float length) {
  float squares = 0;
  for (const float value : values) squares += value * value;
  const float factor = length / std::max(std::sqrt(squares), eps);
  for (float& value : values) value *= factor;
}

// One value head: `memory` is its matrix, `out` gets S^T q.
void StepHead(std::span<const float> query, std::span<const float> key,
              std::span<const float> value, float decay, float strength, std::span<float> memory,
              std::span<float> out) {
  const size_t width = key.size();
  std::vector<float> held(width, 0.0f);  // S^T k
  for (size_t i = 0; i < width; ++i) {
    float* row = memory.data() + i * width;
    for (size_t j = 0; j < width; ++j) {
      row[j] *= decay;
      held[j] += row[j] * key[i];
    }
  }
  for (size_t j = 0; j < width; ++j) held[j] = (value[j] - held[j]) * strength;
  std::fill(out.begin(), out.end(), 0.0f);
  for (size_t i = 0; i < width; ++i) {
    float* row = memory.data() + i * width;
    for (size_t j = 0; j < width; ++j) {
      row[j] += key[i] * held[j];
      out[j] += row[j] * query[i];
    }
  }
}

// RMS norm, times the silu of the gate.
void NormAndGate(const DeltaConstants& constants, std::span<const float> gate,
                 std::span<float> out) {
  float squares = 0;
  for (const float value : out) squares += value * value;
  const float mean = squares / static_cast<float>(out.size());
  const float factor = 1 / std::sqrt(mean + constants.eps);
  for (size_t j = 0; j < out.size(); ++j)
    out[j] = out[j] * factor * constants.norm[j] * RecurrentSilu(gate[j]);
}

}  // namespace

void StepDelta(const DeltaShape& shape, const DeltaConstants& constants, const DeltaToken& token,
               RecurrentState& state, std::span<float> out) {
  const size_t width = shape.width;
  std::vector<float> mixed = Convolve(shape.state(), {constants.kernel, {}}, token.mixed, state);
  const std::span<float> queries = std::span(mixed).first(shape.key_heads * width);
  const std::span<float> keys = std::span(mixed).subspan(shape.key_heads * width, queries.size());
  const std::span<const float> values = std::span(mixed).subspan(2 * queries.size());
  for (uint32_t head = 0; head < shape.key_heads; ++head) {
    Normalize(queries.subspan(head * width, width), constants.eps,
              1 / std::sqrt(static_cast<float>(width)));
    Normalize(keys.subspan(head * width, width), constants.eps, 1);
  }
  for (uint32_t head = 0; head < shape.value_heads; ++head) {
    const size_t from = shape.KeyHeadOf(head) * width, at = head * width;
    const float rate = constants.decay[head] * Softplus(token.alpha[head] + constants.bias[head]);
    const std::span<float> own = out.subspan(at, width);
    StepHead(queries.subspan(from, width), keys.subspan(from, width), values.subspan(at, width),
             std::exp(rate), SigmoidOf(token.beta[head]),
             std::span(state.memory).subspan(at * width, width * width), own);
    NormAndGate(constants, token.gate.subspan(at, width), own);
  }
  ++state.length;
}

}  // namespace moepack::runtime
