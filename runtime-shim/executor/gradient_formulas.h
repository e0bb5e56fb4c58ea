// Formulas of a gradient descent for single values: the activations of experts with their
// derivatives, and a step of Adam. The host computes with them, and so do kernels of a GPU.
#pragma once

#include <cmath>

#include "runtime-shim/executor/shapes.h"

#ifdef __CUDACC__
#define MOEPACK_FORMULA __host__ __device__ inline
#else
#define MOEPACK_FORMULA inline
#endif

namespace moepack::runtime {

// A function of one value, and its derivative there. Where a value is clamped, that is 0.
struct Sloped {
  float value = 0, slope = 0;
};

MOEPACK_FORMULA Sloped SigmoidSloped(float x) {
  const float value = 1 / (1 + expf(-x));
  return {value, value * (1 - value)};
}

// x * sigmoid(factor * x)
MOEPACK_FORMULA Sloped SiluSloped(float x, float factor) {
  const Sloped gate = SigmoidSloped(factor * x);
  return {x * gate.value, gate.value + factor * x * gate.slope};
}

// The tanh form, as in reference/scalar_ops.cc: x / 2 * (1 + t), t = tanh(c (x + 0.044715 x^3)).
// dt/dx = c (1 + 3 * 0.044715 x^2) (1 - t^2).
MOEPACK_FORMULA Sloped GeluSloped(float x) {
  constexpr float kSqrtTwoOverPi = 0.797884560802865f, kCubic = 0.044715f;
  const float t = tanhf(kSqrtTwoOverPi * (x + kCubic * x * x * x));
  const float by_x = kSqrtTwoOverPi * (1 + 3 * kCubic * x * x) * (1 - t * t);
  return {0.5f * x * (1 + t), 0.5f * (1 + t) + 0.5f * x * by_x};
}

MOEPACK_FORMULA Sloped ClampSloped(float x, float limit) {
  const float near = x > limit ? limit : x < -limit ? -limit : x;
  return {near, x > limit || x < -limit ? 0.0f : 1.0f};
}

MOEPACK_FORMULA Sloped BoundedSloped(float x, float bound) {
  const float t = tanhf(x / bound);
  return {bound * t, 1 - t * t};
}

// What an activation makes of `gate`, or of `up` alone where there is no gate.
MOEPACK_FORMULA Sloped GateSloped(const Activation& activation, float x) {
  const float limit = activation.limit;
  switch (activation.kind) {
    case Activation::kSilu:
      return SiluSloped(x, 1);
    case Activation::kGelu:
      return GeluSloped(x);
    case Activation::kClampedSilu: {
      const Sloped at = SiluSloped(x > 7 ? 7 : x, 1.702f);
      return {at.value, x > 7 ? 0 : at.slope};
    }
    case Activation::kSigmoid:
      return SigmoidSloped(x);
    case Activation::kLimitedSilu: {
      const Sloped silu = SiluSloped(x, 1);
      return silu.value > limit ? Sloped{limit, 0} : silu;
    }
    case Activation::kSiluOfLimited: {
      const Sloped at = SiluSloped(x > limit ? limit : x, 1);
      return {at.value, x > limit ? 0 : at.slope};
    }
    case Activation::kSitu: {
      const Sloped bounded = BoundedSloped(x, limit), share = SigmoidSloped(x);
      return {bounded.value * share.value,
              bounded.slope * share.value + bounded.value * share.slope};
    }
    case Activation::kRelu:
      return {x < 0 ? 0 : x, x > 0 ? 1.0f : 0.0f};
    case Activation::kSquaredRelu:
      break;
  }
  const float positive = x < 0 ? 0 : x;
  return {positive * positive, 2 * positive};
}

// What multiplies that, of `up`. Not for kSquaredRelu, which does not use it.
MOEPACK_FORMULA Sloped UpSloped(const Activation& activation, float x) {
  switch (activation.kind) {
    case Activation::kClampedSilu: {
      const Sloped near = ClampSloped(x, 7);
      return {near.value + 1, near.slope};
    }
    case Activation::kLimitedSilu:
    case Activation::kSiluOfLimited:
      return ClampSloped(x, activation.limit);
    case Activation::kSitu:
      if (activation.up_limit > 0) return BoundedSloped(x, activation.up_limit);
      break;
    default:
      break;
  }
  return {x, 1};
}

// Returns act(gate, up), and replaces both by its derivatives with respect to them. `up` is null if
// there is none.
MOEPACK_FORMULA float ActivateSloped(const Activation& activation, float& gate, float* up) {
  const Sloped left = GateSloped(activation, gate);
  if (up == nullptr || activation.kind == Activation::kSquaredRelu) {
    gate = left.slope;
    if (up != nullptr) *up = 0;
    return left.value;
  }
  const Sloped right = UpSloped(activation, *up);
  gate = left.slope * right.value;
  *up = left.value * right.slope;
  return left.value * right.value;
}

// A step of Adam for some values (gradient/adam.h, NthStep).
struct AdamStep {
  float rate = 0, of_second = 0;          // of this step
  float keep_first = 0, keep_second = 0;  // of the running means
  float floor = 0, most = 0;              // of the root, and of a slope
};

// A value, and the running means of its slope and of the slope's square. A slope that is not a
// number counts as 0.
MOEPACK_FORMULA void MoveValue(const AdamStep& step, float given, float& first, float& second,
                               float& value) {
  const float slope = given > step.most    ? step.most
                      : given < -step.most ? -step.most
                      : given == given     ? given
                                           : 0.0f;
  first = step.keep_first * first + (1 - step.keep_first) * slope;
  second = step.keep_second * second + (1 - step.keep_second) * slope * slope;
  value -= step.rate * first / (sqrtf(second * step.of_second) + step.floor);
}

}  // namespace moepack::runtime
