// to = from
#version 450
#include "element.glsl"

layout(binding = 0) readonly buffer From { float from[]; };
layout(binding = 1) writeonly buffer To { float to[]; };

layout(push_constant) uniform Push {
  Rows from_rows, to_rows;
  uint count, width;
};

void main() {
  const uint row = Element() / width, column = Element() % width;
  if (row >= count) return;
  to[At(to_rows, row, column)] = from[At(from_rows, row, column)];
}
