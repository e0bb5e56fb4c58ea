// y[c][t] = x[t][c]; `count` and `width` are those of y.
#version 450
#include "element.glsl"

layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) writeonly buffer Y { float y[]; };

layout(push_constant) uniform Push {
  Rows x_rows, y_rows;
  uint count, width;
};

void main() {
  const uint row = Element() / width, column = Element() % width;
  if (row >= count) return;
  y[At(y_rows, row, column)] = x[At(x_rows, column, row)];
}
