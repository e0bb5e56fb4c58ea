// Symmetric positive definite systems in double precision, at the speed of products with panels.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "libshard/base/result.h"

namespace moepack::runtime {

// The Cholesky factor of a symmetric matrix, in the matrix's memory, which it borrows. Every result
// has the same bits for any number of threads, because rows and columns are divided into blocks of
// a fixed size.
class Cholesky {
 public:
  // `matrix` is [size, size]; only its upper triangle (row <= column) is read, and it is
  // overwritten. No value for a matrix that is not positive definite, or has values that are not
  // finite. Throws what threads throw, as the other functions do. `jobs`: threads, 0 for one per
  // core.
  static std::optional<Cholesky> Of(std::span<double> matrix, size_t size, size_t jobs);

  size_t size() const { return size_; }
  // Replaces `right`, [size, columns] row by row, by the solution.
  void Solve(std::span<double> right, size_t columns, size_t jobs) const;
  // The diagonal of the inverse.
  std::vector<double> InverseDiagonal(size_t jobs) const;

 private:
  Cholesky() = default;
  size_t size_ = 0;
  std::span<double> factor_;  // below the diagonal; above it, its transpose
};

}  // namespace moepack::runtime
