// x[rows[i]] += factors[i] * y[i]; the rows are distinct.
#version 450
#include "element.glsl"

layout(binding = 0) buffer X { float x[]; };
layout(binding = 1) readonly buffer Indexes { uint indexes[]; };
layout(binding = 2) readonly buffer Factors { float factors[]; };
layout(binding = 3) readonly buffer Y { float y[]; };

layout(push_constant) uniform Push {
  Rows x_rows, y_rows;
  uint first_index, first_factor;
  uint count, width;
};

void main() {
  const uint i = Element() / width, column = Element() % width;
  if (i >= count) return;
  x[At(x_rows, indexes[first_index + i], column)] +=
      factors[first_factor + i] * y[At(y_rows, i, column)];
}
