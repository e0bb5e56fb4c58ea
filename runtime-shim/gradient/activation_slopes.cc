#include "runtime-shim/gradient/activation_slopes.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace moepack::runtime {
namespace {

// A function of one value, and its derivative there.
struct Sloped {
  float value = 0, slope = 0;
};

Sloped SigmoidAt(float x) {
  const float value = 1 / (1 + std::exp(-x));
  return {value, value * (1 - value)};
}

// x * sigmoid(factor * x)
Sloped SiluAt(float x, float factor) {
  const Sloped gate = SigmoidAt(factor * x);
  return {x * gate.value, gate.value + factor * x * gate.slope};
}

// The tanh form, as in reference/scalar_ops.cc: x / 2 * (1 + t), t = tanh(c (x + 0.044715 x^3)).
// dt/dx = c (1 + 3 * 0.044715 x^2) (1 - t^2).
Sloped GeluAt(float x) {
  constexpr float kSqrtTwoOverPi = 0.797884560802865f, kCubic = 0.044715f;
  const float t = std::tanh(kSqrtTwoOverPi * (x + kCubic * x * x * x));
  const float by_x = kSqrtTwoOverPi * (1 + 3 * kCubic * x * x) * (1 - t * t);
  return {0.5f * x * (1 + t), 0.5f * (1 + t) + 0.5f * x * by_x};
}

Sloped ClampAt(float x, float low, float high) {
  return {std::clamp(x, low, high), x < low || x > high ? 0.0f : 1.0f};
}

// gate_of(gate) * up_of(up), by the product rule.
template <class GateOf, class UpOf>
void Multiply(std::span<float> gate, std::span<float> up, std::span<float> out,
              const GateOf& gate_of, const UpOf& up_of) {
  for (size_t i = 0; i < gate.size(); ++i) {
    const Sloped left = gate_of(gate[i]), right = up_of(up[i]);
    out[i] = left.value * right.value;
    gate[i] = left.slope * right.value;
    up[i] = left.value * right.slope;
  }
}

Sloped Identity(float x) { return {x, 1}; }

// gpt-oss: g = min(gate, 7), u = clamp(up, -7, 7); g * sigmoid(1.702 g) * (u + 1)
Sloped ClampedGate(float x) {
  constexpr float kMost = 7, kFactor = 1.702f;
  Sloped at = SiluAt(std::min(x, kMost), kFactor);
  if (x > kMost) at.slope = 0;
  return at;
}
Sloped ClampedUp(float x) {
  Sloped at = ClampAt(x, -7, 7);
  at.value += 1;
  return at;
}

void SquaredRelu(std::span<float> gate, std::span<float> up, std::span<float> out) {
  std::fill(up.begin(), up.end(), 0.0f);  // nothing depends on it
  for (size_t i = 0; i < gate.size(); ++i) {
    const float positive = std::max(gate[i], 0.0f);
    out[i] = positive * positive;
    gate[i] = 2 * positive;
  }
}

void LimitedSilu(float limit, std::span<float> gate, std::span<float> up, std::span<float> out) {
  Multiply(
      gate, up, out,
      [limit](float x) {
        const Sloped silu = SiluAt(x, 1);
        return silu.value > limit ? Sloped{limit, 0} : silu;
      },
      [limit](float x) { return ClampAt(x, -limit, limit); });
}

}  // namespace

void ActivateWithSlopes(Activation activation, std::span<float> gate, std::span<float> up,
                        std::span<float> out) {
  switch (activation.kind) {
    case Activation::kSilu:
      return Multiply(
          gate, up, out, [](float x) { return SiluAt(x, 1); }, Identity);
    case Activation::kGelu:
      return Multiply(gate, up, out, GeluAt, Identity);
    case Activation::kClampedSilu:
      return Multiply(gate, up, out, ClampedGate, ClampedUp);
    case Activation::kSigmoid:
      return Multiply(gate, up, out, SigmoidAt, Identity);
    case Activation::kSquaredRelu:
      return SquaredRelu(gate, up, out);
    case Activation::kLimitedSilu:
      return LimitedSilu(activation.limit, gate, up, out);
  }
}

}  // namespace moepack::runtime
