// y[t][r] = sum over c of weights[r][c] * x[t][c] for many tokens. A workgroup computes a tile of
// 64 rows and 32 tokens, 16 columns at a time; an invocation computes 4 by 4 of them.
#version 450
#include "rows.glsl"
#include "weights.glsl"

const uint kRows = 64;
const uint kTokens = 32;
const uint kColumns = 16;
const uint kFours = kColumns / 4;
const uint kThreads = 128;
layout(local_size_x = 128) in;

layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) writeonly buffer Y { float y[]; };

layout(push_constant) uniform Push {
  Weights weights;
  Rows x_rows, y_rows;
  uint rows, columns, tokens;
};

// Four adjacent rows or tokens in a vector, so that an invocation reads what it needs at once.
shared vec4 weight_tile[kColumns][kRows / 4];
shared vec4 x_tile[kColumns][kTokens / 4];

void LoadWeights(uint first_row, uint first_column) {
  for (uint i = gl_LocalInvocationID.x; i < kRows * kFours; i += kThreads) {
    const uint row = i / kFours, column = i % kFours * 4;
    vec4 four = vec4(0);
    if (first_row + row < rows && first_column + column < columns) {
      four = WeightsAt(weights, first_row + row, first_column + column, columns);
    }
    for (uint k = 0; k < 4; ++k) weight_tile[column + k][row / 4][row % 4] = four[k];
  }
}

void LoadInputs(uint first_token, uint first_column) {
  for (uint i = gl_LocalInvocationID.x; i < kTokens * kColumns; i += kThreads) {
    const uint token = i / kColumns, column = i % kColumns;
    const bool inside = first_token + token < tokens && first_column + column < columns;
    x_tile[column][token / 4][token % 4] =
        inside ? x[At(x_rows, first_token + token, first_column + column)] : 0;
  }
}

void main() {
  const uint row_tiles = (rows + kRows - 1) / kRows;
  const uint first_row = Group() % row_tiles * kRows;
  const uint first_token = Group() / row_tiles * kTokens;
  const uint own_rows = gl_LocalInvocationID.x % (kRows / 4);
  const uint own_tokens = gl_LocalInvocationID.x / (kRows / 4);
  vec4 sums[4] = vec4[](vec4(0), vec4(0), vec4(0), vec4(0));
  for (uint first_column = 0; first_column < columns; first_column += kColumns) {
    LoadWeights(first_row, first_column);
    LoadInputs(first_token, first_column);
    barrier();
    // Long sums are sums of the tiles' sums, so that fewer additions involve a large number.
    vec4 parts[4] = vec4[](vec4(0), vec4(0), vec4(0), vec4(0));
    for (uint c = 0; c < kColumns; ++c) {
      const vec4 four = weight_tile[c][own_rows];
      const vec4 inputs = x_tile[c][own_tokens];
      for (uint t = 0; t < 4; ++t) parts[t] += four * inputs[t];
    }
    for (uint t = 0; t < 4; ++t) sums[t] += parts[t];
    barrier();
  }
  for (uint t = 0; t < 4; ++t) {
    const uint token = first_token + 4 * own_tokens + t;
    for (uint k = 0; k < 4; ++k) {
      const uint row = first_row + 4 * own_rows + k;
      if (token < tokens && row < rows) y[At(y_rows, token, row)] = sums[t][k];
    }
  }
}
