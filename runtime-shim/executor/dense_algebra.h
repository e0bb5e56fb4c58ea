// Dense linear algebra in an executor's own memory. An executor may offer it beside the operations
// of a forward pass; then the steps of a refit run where their data is (refit/device_*.h).
#pragma once

#include <cstdint>
#include <span>

#include "libshard/base/result.h"
#include "runtime-shim/executor/gradient_formulas.h"
#include "runtime-shim/executor/shapes.h"

namespace moepack::runtime {

// `count` rows of `width` F64 values in a buffer; row i starts at value offset + i * stride.
// Borrows the buffer.
struct Doubles {
  Buffer* buffer = nullptr;
  uint64_t offset = 0;
  uint32_t count = 0, width = 0, stride = 0;

  // Returns `rows` rows of `columns` values, from this row and column on.
  Doubles Block(uint32_t row, uint32_t column, uint32_t rows, uint32_t columns) const {
    return {buffer, offset + uint64_t{row} * stride + column, rows, columns, stride};
  }
};

// One side of a product: rows, or their transpose.
struct Factor {
  Rows rows;
  bool turned = false;

  uint32_t count() const { return turned ? rows.width : rows.count; }
  uint32_t width() const { return turned ? rows.count : rows.width; }
};
inline Factor Straight(const Rows& rows) { return {rows, false}; }
inline Factor Turned(const Rows& rows) { return {rows, true}; }

// Values and what moves them; equally many rows and columns each.
struct AdamRows {
  Rows slopes, firsts, seconds, values;
};

// As in Executor: operations run in the order of the calls, together with those of the executor;
// the caller has checked shapes and ranges, and outputs do not overlap inputs; and an error of the
// device is returned by the next Read, Finish or Factorize (kUnavailable). Matrices of doubles are
// symmetric where a comment says so; then only values with row <= column are read, if the columns
// of TakeColumns are ascending.
class DenseAlgebra {
 public:
  virtual ~DenseAlgebra() = default;
  // Frees what is kept from one operation to the next.
  virtual void Release() = 0;

  // Products. Products and sums are F32, not rounded further to TF32 or BF16.

  // out = a b
  virtual void Multiply(const Factor& a, const Factor& b, const Rows& out) = 0;
  // sums[i][j] += sum over rows of a[row][i] * b[row][j]: in F32 for `some` rows each, which are
  // added up in F64 in order.
  virtual void AddProduct(const Rows& a, const Rows& b, uint32_t some, const Doubles& sums) = 0;

  // Systems of equations, in F64.

  // At most this many: libraries may number the values of a matrix in 31 bits.
  static constexpr uint64_t kMostEquations = 46340;
  virtual void Clear(const Doubles& values) = 0;
  virtual Status Read(const Doubles& from, std::span<double> values) = 0;
  virtual void AddToDiagonal(const Doubles& matrix, double value) = 0;
  // Replaces a symmetric matrix by its Cholesky factor, as Solve and InvertDiagonal take it. False
  // for one that is not positive definite, or has values that are not finite; then its values are
  // undefined.
  virtual Result<bool> Factorize(const Doubles& matrix) = 0;
  // Each row of `right` is a right side, and is replaced by its solution.
  virtual void Solve(const Doubles& factor, const Doubles& right) = 0;
  // diagonal[0][i] = the diagonal of the inverse of the matrix that was factorized.
  virtual void InvertDiagonal(const Doubles& factor, const Doubles& diagonal) = 0;
  // squares[0][i] = sum over rows of values[row][i]^2, added up in F64
  virtual void SumSquares(const Rows& values, const Doubles& squares) = 0;
  virtual void SumSquares(const Doubles& values, const Doubles& squares) = 0;
  // to[i][j] = from[i][columns[j]]; if `symmetric`, from[columns[i]][columns[j]].
  virtual void TakeColumns(const Doubles& from, std::span<const uint32_t> columns, bool symmetric,
                           const Doubles& to) = 0;
  // right = factor * (a - b)
  virtual void SetDifference(const Rows& a, const Rows& b, double factor, const Doubles& right) = 0;
  // values = values + change, added in F64; moved = change
  virtual void Change(const Doubles& change, const Rows& values, const Rows& moved) = 0;

  // Gradients, in F32. Formulas: gradient_formulas.h.

  // Sets `out` to act(gate, up), and replaces these by its derivatives with respect to them. `up`
  // is empty, or like the others.
  virtual void ActivateWithSlopes(Activation activation, const Rows& gate, const Rows& up,
                                  const Rows& out) = 0;
  // x[t][i] *= y[t][i]
  virtual void MultiplyValues(const Rows& x, const Rows& y) = 0;
  // out[t][0] = a[t] . b[t]
  virtual void Dots(const Rows& a, const Rows& b, const Rows& out) = 0;
  virtual void Descend(const AdamStep& step, const AdamRows& rows) = 0;
};

}  // namespace moepack::runtime
