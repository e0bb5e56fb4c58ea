// Products of decoded rows of weights with rows of activations, for the vectors of this machine.
#pragma once

#include <cstdint>
#include <span>

#include "runtime-shim/executor/shapes.h"

namespace moepack::runtime {

// Rows of weights that are multiplied together: tiles hold a multiple of it where they can.
constexpr uint32_t kDotRows = 4;

struct DecodedTile {
  std::span<const float> weights;  // [rows, x.width]
  uint32_t rows;
};
// y[t][r] = sum over c of weights[r][c] * x[t][c]. Each sum runs over the columns in one order,
// whatever rows and tokens are around it: sum i of as many as the vector has lanes takes columns i,
// i + lanes and so on; then the lanes are added, then the columns that fill no vector.
void MultiplyTile(const DecodedTile& tile, const Rows& x, const Rows& y);

// "AVX2": the instructions that MultiplyTile uses here.
const char* DotInstructions();

}  // namespace moepack::runtime
