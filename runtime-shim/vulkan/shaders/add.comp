// x += scale * y; y has a stride of 0 if one row is added to all.
#version 450
#include "element.glsl"

layout(binding = 0) buffer X { float x[]; };
layout(binding = 1) readonly buffer Y { float y[]; };

layout(push_constant) uniform Push {
  Rows x_rows, y_rows;
  uint count, width;
  float scale;
};

void main() {
  const uint row = Element() / width, column = Element() % width;
  if (row >= count) return;
  x[At(x_rows, row, column)] += scale * y[At(y_rows, row, column)];
}
