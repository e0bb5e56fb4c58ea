// y[i] = row ids[i] of the weights. An invocation decodes four values.
#version 450
#include "element.glsl"
#include "weights.glsl"

layout(binding = 1) readonly buffer Ids { uint ids[]; };
layout(binding = 2) writeonly buffer Y { float y[]; };

layout(push_constant) uniform Push {
  Weights weights;
  uint first_id;
  Rows y_rows;
  uint count, columns;
};

void main() {
  const uint fours = (columns + 3) / 4;
  const uint i = Element() / fours, column = Element() % fours * 4;
  if (i >= count) return;
  const vec4 four = WeightsAt(weights, ids[first_id + i], column, columns);
  for (uint k = 0; k < min(4, columns - column); ++k) y[At(y_rows, i, column + k)] = four[k];
}
