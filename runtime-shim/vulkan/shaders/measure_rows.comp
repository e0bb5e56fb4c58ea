// sizes[t] = the Euclidean norm of x[t], and its largest magnitude; a workgroup per row.
#version 450
#include "rows.glsl"
#include "sum.glsl"

layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) writeonly buffer Sizes { float sizes[]; };

layout(push_constant) uniform Push {
  Rows x_rows, sizes_rows;
  uint count, width;
};

void main() {
  const uint row = Group();
  if (row >= count) return;
  float squares = 0, peak = 0;
  for (uint i = gl_LocalInvocationID.x; i < width; i += kThreads) {
    const float value = x[At(x_rows, row, i)];
    squares += value * value;
    peak = max(peak, abs(value));
  }
  const float norm = sqrt(SumOfGroup(squares)), largest = LargestOfGroup(peak);
  if (gl_LocalInvocationID.x != 0) return;
  sizes[At(sizes_rows, row, 0)] = norm;
  sizes[At(sizes_rows, row, 1)] = largest;
}
