// Multiplies decoded rows of weights with rows of activations, with this machine's vectors.
#pragma once

#include <cstdint>
#include <span>

#include "runtime-shim/executor/shapes.h"

namespace moepack::runtime {

// The number of rows of weights that are multiplied together. Tiles hold a multiple of it where
// they can.
constexpr uint32_t kDotRows = 4;

struct DecodedTile {
  std::span<const float> weights;  // [rows, x.width]
  uint32_t rows;
};
// y[t][r] = sum over c of weights[r][c] * x[t][c]. Each sum adds the columns in one order, whatever
// rows and tokens are around it: lane i adds columns i, i + lanes and so on, then the lanes are
// added up, and then the columns that fill no vector. So batches and tiles of any size give the
// same bits.
void MultiplyTile(const DecodedTile& tile, const Rows& x, const Rows& y);

// Returns the instructions that MultiplyTile uses on this machine, such as "AVX2".
const char* DotInstructions();

}  // namespace moepack::runtime
