// y[t][r] = sum over c of weights[r][c] * x[t][c] for a few tokens. A workgroup computes four rows
// with 32 invocations each; an invocation decodes runs of 16 values and uses them for every token.
#version 450
#include "rows.glsl"
#include "weights.glsl"

const uint kLanes = 32;
const uint kRows = 4;
const uint kRun = 16;
layout(local_size_x = 32, local_size_y = 4) in;
// At least as many as there are.
layout(constant_id = 2) const uint kTokens = 1;

layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) writeonly buffer Y { float y[]; };

layout(push_constant) uniform Push {
  Weights weights;
  Rows x_rows, y_rows;
  uint rows, columns, tokens;
};

shared float partial[kTokens][kRows][kLanes];

vec4 InputAt(uint token, uint column) {
  const uint first = At(x_rows, token, column);
  if (kWholeFours) return vec4(x[first], x[first + 1], x[first + 2], x[first + 3]);
  // The weights after the end of the row are 0; only the reads must stay inside it.
  const uint last = At(x_rows, token, columns - 1);
  return vec4(x[first], x[min(first + 1, last)], x[min(first + 2, last)],
              x[min(first + 3, last)]);
}

void main() {
  const uint lane = gl_LocalInvocationID.x;
  const uint slot = gl_LocalInvocationID.y;
  const uint row = Group() * kRows + slot;
  float sums[kTokens];
  for (uint t = 0; t < kTokens; ++t) sums[t] = 0;
  const uint end = row < rows ? columns : 0;
  for (uint run = lane * kRun; run < end; run += kLanes * kRun) {
    for (uint column = run; column < min(run + kRun, end); column += 4) {
      const vec4 four = WeightsAt(weights, row, column, columns);
      for (uint t = 0; t < kTokens; ++t) {
        if (t < tokens) sums[t] += dot(four, InputAt(t, column));
      }
    }
  }
  for (uint t = 0; t < kTokens; ++t) partial[t][slot][lane] = sums[t];
  barrier();
  for (uint half_size = kLanes / 2; half_size > 0; half_size /= 2) {
    if (lane < half_size) {
      for (uint t = 0; t < kTokens; ++t) {
        partial[t][slot][lane] += partial[t][slot][lane + half_size];
      }
    }
    barrier();
  }
  if (lane < tokens && row < rows) y[At(y_rows, lane, row)] = partial[lane][slot][0];
}
