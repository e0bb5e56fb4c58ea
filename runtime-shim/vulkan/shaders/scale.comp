// x *= factor
#version 450
#include "element.glsl"

layout(binding = 0) buffer X { float x[]; };

layout(push_constant) uniform Push {
  Rows x_rows;
  uint count, width;
  float factor;
};

void main() {
  const uint row = Element() / width, column = Element() % width;
  if (row >= count) return;
  x[At(x_rows, row, column)] *= factor;
}
