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
// rows and tokens are around it: for kColumnsAtOnce columns lane i adds columns i, i + lanes and so
// on, then neighbouring lanes are added up, then the columns that do not fill a vector; these sums
// are added one after another. So batches and tiles of any size give the same bits.
struct Product {
  FloatRows weights;
  uint32_t columns = 0;
  std::span<const float* const> x;  // the rows of the tokens
  std::span<float* const> y;        // as many
};
void MultiplyRows(const Product& product);

// The same for one token whose weights arrive a few columns at a time, in ascending order, so that
// they need not leave the first-level cache: up to kRowsAlone rows, and any multiple of 64 columns
// except for the last. The bits are those of MultiplyRows.
constexpr uint32_t kRowsAlone = 8;
class DotsAlone {
 public:
  // `columns` is the whole width; y[r] is written with the last columns.
  DotsAlone(uint32_t columns, uint32_t rows, float* y) : columns_(columns), rows_(rows), y_(y) {}
  // Adds columns [c, c + columns) of the weights, times x[0..columns) of the token.
  void Add(const FloatRows& weights, const float* x, uint32_t columns);

 private:
  alignas(64) float lanes_[kRowsAlone * 16] = {};  // sums of the columns so far, a vector per row
  uint32_t columns_, rows_, done_ = 0;
  float* y_;
};

// Columns whose sums stay in registers: a row of most models. The rows of a few tokens fit in the
// first-level cache beside a row of weights.
constexpr uint32_t kColumnsAtOnce = 2048;

// Returns the instruction set that MultiplyRows uses on this machine, such as "AVX2".
const char* DotInstructions();

}  // namespace moepack::runtime
