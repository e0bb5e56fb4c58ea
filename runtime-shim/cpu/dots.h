// Multiplies decoded rows of weights with rows of activations, with this machine's vectors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace moepack::runtime {

// Rows of floats, one every `stride`.
struct FloatRows {
  const float* first = nullptr;
  size_t stride = 0;
  uint32_t count = 0;
};

// y[t][r] = sum over c of weights[r][c] * x[t][c]. Each sum adds the columns in one order, whatever
// rows and tokens are around it: of kColumnsAtOnce columns lane i adds columns i, i + lanes and so
// on, then neighbouring lanes are added up, then the columns that fill no vector; these sums are
// added one after the other. So batches and tiles of any size give the same bits.
struct Product {
  FloatRows weights;
  uint32_t columns = 0;
  std::span<const float* const> x;  // the rows of the tokens
  std::span<float* const> y;        // as many
};
void MultiplyRows(const Product& product);

// Columns whose sums stay in registers: a row of most models. The rows of a few tokens fit into the
// first-level cache beside a row of weights.
constexpr uint32_t kColumnsAtOnce = 2048;

// Returns the instructions that MultiplyRows uses on this machine, such as "AVX2".
const char* DotInstructions();

}  // namespace moepack::runtime
