// y[i] = x[rows[i]] * factors[i]; no factors: 1
#version 450
#include "element.glsl"

layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer Indexes { uint indexes[]; };
layout(binding = 2) readonly buffer Factors { float factors[]; };
layout(binding = 3) writeonly buffer Y { float y[]; };

layout(push_constant) uniform Push {
  Rows x_rows, y_rows;
  uint first_index, first_factor, has_factors;
  uint count, width;
};

void main() {
  const uint i = Element() / width, column = Element() % width;
  if (i >= count) return;
  float value = x[At(x_rows, indexes[first_index + i], column)];
  if (has_factors != 0) value *= factors[first_factor + i];
  y[At(y_rows, i, column)] = value;
}
