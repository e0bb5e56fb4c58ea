// x[t] *= sigmoid(gate[t][0])
#version 450
#include "element.glsl"

layout(binding = 0) buffer X { float x[]; };
layout(binding = 1) readonly buffer Gate { float gate[]; };

layout(push_constant) uniform Push {
  Rows x_rows, gate_rows;
  uint count, width;
};

void main() {
  const uint row = Element() / width, column = Element() % width;
  if (row >= count) return;
  x[At(x_rows, row, column)] /= 1 + exp(-gate[At(gate_rows, row, 0)]);
}
