#include "runtime-shim/model/recurrence.h"

#include <algorithm>
#include <cmath>

namespace moepack::runtime {

void RecurrentState::Clear(const RecurrentShape& shape) {
  window.assign(size_t{shape.kernel - 1} * shape.channels, 0.0f);
  memory.assign(shape.memory, 0.0f);
  length = 0;
}

std::vector<float> Convolve(const RecurrentShape& shape, const Convolution& convolution,
                            std::span<const float> token, RecurrentState& state) {
  const size_t channels = shape.channels, before = shape.kernel - 1;
  std::vector<float> out(channels);
  for (size_t channel = 0; channel < channels; ++channel) {
    const std::span<const float> taps =
        convolution.kernel.subspan(channel * shape.kernel, shape.kernel);
    float sum = 0;
    for (size_t tap = 0; tap < before; ++tap)
      sum += state.window[tap * channels + channel] * taps[tap];
    sum += token[channel] * taps[before];
    if (!convolution.bias.empty()) sum += convolution.bias[channel];
    out[channel] = RecurrentSilu(sum);
  }
  if (before == 0) return out;
  std::copy(state.window.begin() + static_cast<std::ptrdiff_t>(channels), state.window.end(),
            state.window.begin());
  std::copy(token.begin(), token.end(), state.window.end() - static_cast<std::ptrdiff_t>(channels));
  return out;
}

// For each token and value head, with S the head's matrix:
//
//   q, k, v = silu(convolution of the last `kernel` tokens);  q, k = q / |q|, k / |k|
//   S = exp(decay * softplus(alpha + bias)) * S
//   S = S + k (sigmoid(beta) * (v - S^T k))^T
//   o = S^T q / sqrt(width)
//   out = norm(o) * silu(gate), or norm(o) * sigmoid(gate)

void NormalizeTo(float length, float eps, std::span<float> values) {
  float squares = 0;
  for (const float value : values) squares += value * value;
  const float factor = length / std::sqrt(squares + eps);
  for (float& value : values) value *= factor;
}

void StepDeltaHead(const DeltaHead& head, std::span<float> memory, std::span<float> out) {
  const auto& [query, key, value, kept, strength] = head;
  const size_t width = key.size();
  std::vector<float> held(width, 0.0f);  // S^T k
  for (size_t i = 0; i < width; ++i) {
    float* row = memory.data() + i * width;
    for (size_t j = 0; j < width; ++j) {
      row[j] *= kept[i];
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

namespace {

// RMS norm, times the silu or the sigmoid of the gate.
void NormAndGate(const DeltaShape& shape, const DeltaConstants& constants,
                 std::span<const float> gate, std::span<float> out) {
  float squares = 0;
  for (const float value : out) squares += value * value;
  const float mean = squares / static_cast<float>(out.size());
  const float factor = 1 / std::sqrt(mean + constants.eps);
  for (size_t j = 0; j < out.size(); ++j) {
    const float gated = shape.sigmoid_gate ? RecurrentSigmoid(gate[j]) : RecurrentSilu(gate[j]);
    out[j] = out[j] * factor * constants.norm[j] * gated;
  }
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
    NormalizeTo(1 / std::sqrt(static_cast<float>(width)), constants.eps,
                queries.subspan(head * width, width));
    NormalizeTo(1, constants.eps, keys.subspan(head * width, width));
  }
  for (uint32_t head = 0; head < shape.value_heads; ++head) {
    const size_t from = shape.KeyHeadOf(head) * width, at = head * width;
    const float rate = constants.decay[head] * Softplus(token.alpha[head] + constants.bias[head]);
    const std::span<float> own = out.subspan(at, width);
    StepDeltaHead(
        {queries.subspan(from, width), keys.subspan(from, width), values.subspan(at, width),
         std::vector<float>(width, std::exp(rate)), RecurrentSigmoid(token.beta[head])},
        std::span(state.memory).subspan(at * width, width * width), own);
    NormAndGate(shape, constants, token.gate.subspan(at, width), own);
  }
  ++state.length;
}

// For each token and head, with S the head's matrix of `width` rows and `size` columns:
//
//   x, B, C = silu(convolution of the last `kernel` tokens)
//   t = softplus(step + step_bias)
//   S = exp(t * decay) * S + t * x B^T
//   y = S C + skip * x
//   out = norm(y * silu(gate)), group by group

namespace {

// The inputs (B) and outputs (C) of a head's state.
struct Ports {
  std::span<const float> in, out;
};

// One head; `memory` is its matrix.
void StepMambaHead(float step, float decay, std::span<const float> x, const Ports& ports,
                   std::span<float> memory, std::span<float> out) {
  const size_t size = ports.in.size();
  const float kept = std::exp(step * decay);
  for (size_t i = 0; i < x.size(); ++i) {
    float* row = memory.data() + i * size;
    const float written = x[i] * step;
    float sum = 0;
    for (size_t j = 0; j < size; ++j) {
      row[j] = row[j] * kept + ports.in[j] * written;
      sum += row[j] * ports.out[j];
    }
    out[i] = sum;
  }
}

void NormGroup(std::span<const float> weights, float eps, std::span<float> values) {
  float squares = 0;
  for (const float value : values) squares += value * value;
  const float factor = 1 / std::sqrt(squares / static_cast<float>(values.size()) + eps);
  for (size_t i = 0; i < values.size(); ++i) values[i] = values[i] * factor * weights[i];
}

}  // namespace

void StepMamba(const MambaShape& shape, const MambaConstants& constants,
               std::span<const float> projected, RecurrentState& state, std::span<float> out) {
  const size_t inner = shape.inner(), width = shape.width, size = shape.size;
  const std::span<const float> gates = projected.first(inner);
  const std::span<const float> steps = projected.last(shape.heads);
  const std::vector<float> mixed =
      Convolve(shape.state(), {constants.kernel, constants.kernel_bias},
               projected.subspan(inner, shape.channels()), state);
  const std::span<const float> ins = std::span(mixed).subspan(inner, shape.groups * size);
  const std::span<const float> outs = std::span(mixed).last(shape.groups * size);
  for (uint32_t head = 0; head < shape.heads; ++head) {
    const size_t at = head * width, group = head / (shape.heads / shape.groups) * size;
    const std::span<const float> x = std::span(mixed).subspan(at, width);
    const std::span<float> own = out.subspan(at, width);
    StepMambaHead(Softplus(steps[head] + constants.step_bias[head]), constants.decay[head], x,
                  {ins.subspan(group, size), outs.subspan(group, size)},
                  std::span(state.memory).subspan(at * size, width * size), own);
    for (size_t i = 0; i < width; ++i)
      own[i] = (own[i] + x[i] * constants.skip[head]) * RecurrentSilu(gates[at + i]);
  }
  const size_t part = inner / shape.groups;
  for (size_t first = 0; first < inner; first += part)
    NormGroup(std::span(constants.norm).subspan(first, part), constants.eps,
              out.subspan(first, part));
  ++state.length;
}

}  // namespace moepack::runtime
