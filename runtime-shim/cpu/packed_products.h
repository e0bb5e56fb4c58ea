// Products of whole matrices of floats in host memory. The right side is packed into panels
// (panels.h), so that all rows of the left one read it in order. One thread computes each value, in
// ascending k, so that bits depend neither on threads nor on the rows beside a row.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime-shim/cpu/float_matrix.h"
#include "runtime-shim/cpu/panels.h"

namespace moepack::runtime {

// The right side of a product, B [depth, columns]. Its memory is used again by the next Pack.
class PackedMatrix {
 public:
  // `jobs`: threads, 0 for one per core, as in all of this file.
  void Pack(const FloatMatrix& b, size_t jobs);
  // B is the transpose of `turned`.
  void PackTurned(const FloatMatrix& turned, size_t jobs);

  size_t depth() const { return depth_; }
  size_t columns() const { return columns_; }
  size_t panels() const { return (columns_ + kPanelColumns - 1) / kPanelColumns; }
  // Columns that fill the last panel are 0.
  ConstPanel panel(size_t index) const {
    return {values_.data() + index * depth_ * kPanelColumns, kPanelColumns};
  }

 private:
  void Resize(size_t depth, size_t columns);

  size_t depth_ = 0, columns_ = 0;
  std::vector<float> values_;
};

// Where sums go; row i starts at first + i * stride.
struct FloatSums {
  float* first = nullptr;
  size_t stride = 0;
};

// out[i][j] = bias[j] + sum over k of a[i][k] b[k][j]; out [a.rows, b.columns], bias may be empty.
void MultiplyPacked(const FloatMatrix& a, const PackedMatrix& b, std::span<const float> bias,
                    size_t jobs, const FloatSums& out);
// The same, with rows that follow each other.
inline void MultiplyPacked(const FloatMatrix& a, const PackedMatrix& b, std::span<const float> bias,
                           size_t jobs, std::span<float> out) {
  MultiplyPacked(a, b, bias, jobs, FloatSums{out.data(), b.columns()});
}

// Where AddPacked adds; row i starts at first + i * stride.
struct DoubleRows {
  double* first = nullptr;
  size_t stride = 0;
};

// out[i][j] += sum over k of a[i][k] b[k][j], each sum in floats. With `upper`, only at least the
// values with i <= j.
void AddPacked(const FloatMatrix& a, const PackedMatrix& b, bool upper, size_t jobs,
               const DoubleRows& out);

// Columns become rows, `stride` apart. REQUIRES: stride >= from.rows. What is between rows stays.
void TurnMatrix(const FloatMatrix& from, size_t stride, size_t jobs, std::vector<float>& to);
// A stride for rows that are turned: a few floats more than they have, because rows that are a
// power of two apart would share few places in the cache.
inline constexpr size_t TurnedStride(size_t rows) { return rows + 16; }

}  // namespace moepack::runtime
