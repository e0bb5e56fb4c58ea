// gate = act(gate, up)
#version 450
#include "element.glsl"

layout(binding = 0) buffer Gate { float gate[]; };
layout(binding = 1) readonly buffer Up { float up[]; };

// Activation of runtime-shim/executor/shapes.h.
const uint kSilu = 0;
const uint kGelu = 1;
const uint kSigmoid = 3;
const uint kSquaredRelu = 4;
const uint kLimitedSilu = 5;
layout(constant_id = 0) const uint kKind = 0;

layout(push_constant) uniform Push {
  Rows gate_rows, up_rows;
  uint count, width;
  float limit;
};

float Activated(float g, float u) {
  if (kKind == kSilu) return g / (1 + exp(-g)) * u;
  if (kKind == kGelu) {
    // 0.5 * (1 + tanh(z)) is sigmoid(2 z), which does not subtract nearly equal numbers.
    const float z = 0.797884560802865 * (g + 0.044715 * g * g * g);
    return g / (1 + exp(-2 * z)) * u;
  }
  if (kKind == kSigmoid) return u / (1 + exp(-g));
  if (kKind == kSquaredRelu) return g < 0 ? 0 : g * g;
  // Not with min and clamp, which may turn NaN into a number.
  if (kKind == kLimitedSilu) {
    const float silu = g / (1 + exp(-g));
    return (silu > limit ? limit : silu) * (u > limit ? limit : u < -limit ? -limit : u);
  }
  const float limited = g > 7 ? 7 : g;
  const float clamped = u > 7 ? 7 : u < -7 ? -7 : u;
  return limited / (1 + exp(-1.702 * limited)) * (clamped + 1);
}

void main() {
  const uint row = Element() / width, column = Element() % width;
  if (row >= count) return;
  const uint i = At(gate_rows, row, column);
  gate[i] = Activated(gate[i], up[At(up_rows, row, column)]);
}
