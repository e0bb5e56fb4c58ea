// y = x / sqrt(mean(x^2) + eps) * weight + bias, a workgroup per row. y may be x.
#version 450
#include "rows.glsl"
#include "sum.glsl"

layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer Weight { float weight[]; };
layout(binding = 2) readonly buffer Bias { float bias[]; };
layout(binding = 3) buffer Y { float y[]; };

layout(push_constant) uniform Push {
  Rows x_rows, y_rows;
  uint weight_offset, bias_offset;
  uint has_weight, has_bias;
  uint count, width;
  float eps;
};

void main() {
  const uint row = Group();
  if (row >= count) return;
  float squares = 0;
  for (uint i = gl_LocalInvocationID.x; i < width; i += kThreads) {
    const float value = x[At(x_rows, row, i)];
    squares += value * value;
  }
  const float factor = 1 / sqrt(SumOfGroup(squares) / float(width) + eps);
  for (uint i = gl_LocalInvocationID.x; i < width; i += kThreads) {
    float value = x[At(x_rows, row, i)] * factor;
    if (has_weight != 0) value *= weight[weight_offset + i];
    if (has_bias != 0) value += bias[bias_offset + i];
    y[At(y_rows, row, i)] = value;
  }
}
