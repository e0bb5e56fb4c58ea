// For each token and head, with S the head's matrix of `width` rows and `size` columns:
//
//   x, B, C = silu(convolution of the last `kernel` tokens)
//   t = softplus(step + step_bias)
//   S = exp(t * decay) * S + t * x B^T
//   y = S C + skip * x
//   out = norm(y * silu(gate)), group by group
#include "runtime-shim/model/mamba.h"

namespace moepack::runtime {
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
