// Turns pair i of token t by the angle whose cosine is turns[t][i] and whose sine is
// turns[t][pairs + i]; an invocation per pair.
#version 450
#include "element.glsl"

layout(binding = 0) buffer X { float x[]; };
layout(binding = 1) readonly buffer Turns { float turns[]; };

layout(push_constant) uniform Push {
  Rows x_rows, turn_rows;
  uint count, heads, head_width, first, pairs;
  // Between pairs, and between the two values of one.
  uint step, distance;
};

void main() {
  const uint i = Element() % pairs;
  const uint head = Element() / pairs % heads;
  const uint token = Element() / pairs / heads;
  if (token >= count) return;
  const uint low = At(x_rows, token, head * head_width + first + i * step);
  const uint high = low + distance;
  const float cosine = turns[At(turn_rows, token, i)];
  const float sine = turns[At(turn_rows, token, pairs + i)];
  const float a = x[low], b = x[high];
  x[low] = a * cosine - b * sine;
  x[high] = a * sine + b * cosine;
}
