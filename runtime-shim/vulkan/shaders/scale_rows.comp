// x[t] *= factors[t]
#version 450
#include "element.glsl"

layout(binding = 0) buffer X { float x[]; };
layout(binding = 1) readonly buffer Factors { float factors[]; };

layout(push_constant) uniform Push {
  Rows x_rows;
  uint first_factor;
  uint count, width;
};

void main() {
  const uint row = Element() / width, column = Element() % width;
  if (row >= count) return;
  x[At(x_rows, row, column)] *= factors[first_factor + row];
}
