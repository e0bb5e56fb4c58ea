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
const uint kRelu = 6;
const uint kSiluOfLimited = 7;
const uint kSitu = 8;
layout(constant_id = 0) const uint kKind = 0;

layout(push_constant) uniform Push {
  Rows gate_rows, up_rows;
  uint count, width;
  float limit, up_limit;
};

// NaN stays NaN. NVIDIA's driver turns `x > most ? most : x` into a min, which loses NaN, so these
// test the bits.
bool IsNan(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }
float AtMost(float x, float most) { return IsNan(x) ? x : min(x, most); }
float AtLeast(float x, float least) { return IsNan(x) ? x : max(x, least); }
float Within(float x, float bound) { return AtLeast(AtMost(x, bound), -bound); }

// tanh of a driver may lose small values among terms that cancel, and overflow for large ones. The
// next term of the series is below 1e-8 of it.
float Tanh(float x) {
  const float square = x * x;
  if (square < 0.0625) {
    return x +
           x * square *
               (-1.0 / 3 + square * (2.0 / 15 + square * (-17.0 / 315 + square * (62.0 / 2835))));
  }
  return 1 - 2 / (exp(2 * x) + 1);
}
float Bounded(float x, float bound) { return bound * Tanh(x / bound); }

float Activated(float g, float u) {
  if (kKind == kSilu) return g / (1 + exp(-g)) * u;
  if (kKind == kGelu) {
    // 0.5 * (1 + tanh(z)) is sigmoid(2 z), which does not subtract nearly equal numbers.
    const float z = 0.797884560802865 * (g + 0.044715 * g * g * g);
    return g / (1 + exp(-2 * z)) * u;
  }
  if (kKind == kSigmoid) return u / (1 + exp(-g));
  if (kKind == kSquaredRelu) return AtLeast(g, 0) * AtLeast(g, 0);
  if (kKind == kLimitedSilu) return AtMost(g / (1 + exp(-g)), limit) * Within(u, limit);
  if (kKind == kRelu) return AtLeast(g, 0) * u;
  if (kKind == kSiluOfLimited) {
    const float low = AtMost(g, limit);
    return low / (1 + exp(-low)) * Within(u, limit);
  }
  if (kKind == kSitu)
    return Bounded(g, limit) / (1 + exp(-g)) * (up_limit > 0 ? Bounded(u, up_limit) : u);
  const float limited = AtMost(g, 7);
  return limited / (1 + exp(-1.702 * limited)) * (Within(u, 7) + 1);
}

void main() {
  const uint row = Element() / width, column = Element() % width;
  if (row >= count) return;
  const uint i = At(gate_rows, row, column);
  gate[i] = Activated(gate[i], up[At(up_rows, row, column)]);
}
