#include "runtime-shim/refit/cholesky.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "libshard/base/parallel.h"
#include "runtime-shim/cpu/panels.h"

namespace moepack::runtime {
namespace {

// Columns that are factored or solved together: a panel. Fixed widths, so that the number of
// threads does not change how a sum is divided.
constexpr size_t kWide = kPanelColumns;
// Rows that a thread updates at a time, and rows of a system whose earlier rows are subtracted at
// once, by blocks and then by a few rows.
constexpr size_t kRowsOfUpdate = 64, kRowsOfSolve = 64, kFewRows = 8;
// Less work than this many multiplications takes less time than waking threads.
constexpr size_t kWorthFactoring = 1 << 20;

// Rows of kWide numbers.
class Tile {
 public:
  explicit Tile(size_t rows) : values_(rows * kWide, 0) {}
  double* row(size_t i) { return values_.data() + i * kWide; }
  DoublePanel panel() { return {values_.data()}; }
  ConstDoublePanel constant() const { return {values_.data()}; }

 private:
  std::vector<double> values_;
};

// Replaces the upper triangle of a symmetric matrix by the transposed factor, and the lower one by
// the factor, a panel of columns at a time: what earlier columns explain is subtracted, the block
// on the diagonal is factored, and the rows below are multiplied by its inverse.
class Factorization {
 public:
  Factorization(std::span<double> matrix, size_t n, size_t jobs)
      : matrix_(matrix), n_(n), jobs_(jobs) {}

  // False if a pivot is not a positive number.
  bool Run() {
    for (size_t first = 0; first < n_; first += kWide) {
      const size_t wide = std::min(kWide, n_ - first);
      TakeBefore(first, wide);
      Tile corner(wide);
      Subtract(first, wide, first, wide, corner);
      if (!FactorCorner(first, wide, corner)) return false;
      const size_t below = n_ - first - wide;
      const bool worth = below * std::max(first, kWide) * kWide >= kWorthFactoring;
      ForPieces(below, kRowsOfUpdate, worth ? jobs_ : 1, [&](size_t begin, size_t end) {
        Update(first, wide, first + wide + begin, end - begin);
      });
    }
    return true;
  }

 private:
  double& At(size_t row, size_t column) { return matrix_[row * n_ + column]; }

  // The factor's rows of the panel, turned and negated.
  void TakeBefore(size_t first, size_t wide) {
    before_ = Tile(first);
    for (size_t c = 0; c < wide; ++c) {
      for (size_t k = 0; k < first; ++k) before_.row(k)[c] = -At(first + c, k);
    }
  }

  // `out` = the panel's columns of `count` rows from `top` on, less what earlier columns explain.
  void Subtract(size_t first, size_t wide, size_t top, size_t count, Tile& out) {
    for (size_t i = 0; i < count; ++i) {
      for (size_t c = 0; c < wide; ++c)
        out.row(i)[c] = At(std::min(first + c, top + i), std::max(first + c, top + i));
    }
    AddDoubleProducts({&At(top, 0), n_, count, first}, before_.constant(), out.panel());
  }

  // Factors the block on the diagonal, and leaves its inverse, turned, in corner_.
  bool FactorCorner(size_t first, size_t wide, Tile& corner) {
    corner_ = Tile(kWide);
    for (size_t j = 0; j < wide; ++j) {
      for (size_t i = j; i < wide; ++i) {
        double value = corner.row(i)[j];
        for (size_t k = 0; k < j; ++k) value -= corner.row(i)[k] * corner.row(j)[k];
        if (i == j && !(std::isfinite(value) && value > 0)) return false;
        corner.row(i)[j] = i == j ? std::sqrt(value) : value / corner.row(j)[j];
        At(first + i, first + j) = At(first + j, first + i) = corner.row(i)[j];
      }
    }
    for (size_t column = 0; column < wide; ++column) {
      for (size_t i = column; i < wide; ++i) {
        double value = i == column ? 1 : 0;
        for (size_t k = column; k < i; ++k) value -= corner.row(i)[k] * corner_.row(column)[k];
        corner_.row(column)[i] = value / corner.row(i)[i];
      }
    }
    return true;
  }

  void Update(size_t first, size_t wide, size_t top, size_t count) {
    Tile rows(count), factored(count);
    Subtract(first, wide, top, count, rows);
    AddDoubleProducts({rows.row(0), kWide, count, wide}, corner_.constant(), factored.panel());
    for (size_t i = 0; i < count; ++i) {
      for (size_t c = 0; c < wide; ++c)
        At(top + i, first + c) = At(first + c, top + i) = factored.row(i)[c];
    }
  }

  std::span<double> matrix_;
  size_t n_, jobs_;
  Tile before_{0}, corner_{0};
};

// Solves L x = b for the lower triangle of `count` rows, which start `stride` apart; x replaces b.
void SolveLower(const double* lower, size_t stride, size_t count, Tile& x) {
  // Rows that are solved are kept with the opposite sign, so that products with them subtract.
  for (size_t block = 0; block < count; block += kRowsOfSolve) {
    const size_t end = std::min(block + kRowsOfSolve, count);
    AddDoubleProducts({lower + block * stride, stride, end - block, block}, x.constant(),
                      {x.row(block)});
    for (size_t first = block; first < end; first += kFewRows) {
      const size_t last = std::min(first + kFewRows, end);
      AddDoubleProducts({lower + first * stride + block, stride, last - first, first - block},
                        {x.row(block)}, {x.row(first)});
      for (size_t i = first; i < last; ++i) {
        const double* const row = lower + i * stride;
        for (size_t k = first; k < i; ++k) {
          for (size_t c = 0; c < kWide; ++c) x.row(i)[c] += row[k] * x.row(k)[c];
        }
        const double scale = -1 / row[i];
        for (size_t c = 0; c < kWide; ++c) x.row(i)[c] *= scale;
      }
    }
  }
  for (size_t i = 0; i < count * kWide; ++i) x.row(0)[i] = -x.row(0)[i];
}

// Solves L' x = b, from the last row up; `upper` is L'.
void SolveUpper(const double* upper, size_t stride, size_t count, Tile& x) {
  for (size_t end = count; end > 0;) {
    const size_t block = (end - 1) / kRowsOfSolve * kRowsOfSolve;
    AddDoubleProducts({upper + block * stride + end, stride, end - block, count - end},
                      {x.row(end)}, {x.row(block)});
    for (size_t last = end; last > block;) {
      const size_t first = block + (last - 1 - block) / kFewRows * kFewRows;
      AddDoubleProducts({upper + first * stride + last, stride, last - first, end - last},
                        {x.row(last)}, {x.row(first)});
      for (size_t i = last; i-- > first;) {
        const double* const row = upper + i * stride;
        for (size_t k = i + 1; k < last; ++k) {
          for (size_t c = 0; c < kWide; ++c) x.row(i)[c] += row[k] * x.row(k)[c];
        }
        const double scale = -1 / row[i];
        for (size_t c = 0; c < kWide; ++c) x.row(i)[c] *= scale;
      }
      last = first;
    }
    end = block;
  }
  for (size_t i = 0; i < count * kWide; ++i) x.row(0)[i] = -x.row(0)[i];
}

}  // namespace

std::optional<Cholesky> Cholesky::Of(std::span<double> matrix, size_t size, size_t jobs) {
  Cholesky made;
  made.size_ = size;
  made.factor_ = matrix;
  if (!Factorization(matrix, size, jobs).Run()) return std::nullopt;
  return made;
}

void Cholesky::Solve(std::span<double> right, size_t columns, size_t jobs) const {
  const bool worth = size_ * size_ * columns >= kWorthFactoring;
  ForPieces(columns, kWide, worth ? jobs : 1, [&](size_t first, size_t end) {
    Tile part(size_);
    for (size_t row = 0; row < size_; ++row)
      std::copy_n(&right[row * columns + first], end - first, part.row(row));
    SolveLower(factor_.data(), size_, size_, part);
    SolveUpper(factor_.data(), size_, size_, part);
    for (size_t row = 0; row < size_; ++row)
      std::copy_n(part.row(row), end - first, &right[row * columns + first]);
  });
}

// With A = L L', the inverse is L^-T L^-1, so its diagonal has the squared norms of the columns of
// L^-1. Column j of it starts at row j.
std::vector<double> Cholesky::InverseDiagonal(size_t jobs) const {
  std::vector<double> diagonal(size_, 0);
  const bool worth = size_ * size_ * size_ >= kWorthFactoring;
  ForPieces(size_, kWide, worth ? jobs : 1, [&](size_t first, size_t end) {
    const size_t left = size_ - first;
    Tile part(left);
    for (size_t i = 0; i < end - first; ++i) part.row(i)[i] = 1;
    SolveLower(factor_.data() + first * (size_ + 1), size_, left, part);
    for (size_t row = 0; row < left; ++row) {
      for (size_t i = 0; i < end - first; ++i)
        diagonal[first + i] += part.row(row)[i] * part.row(row)[i];
    }
  });
  return diagonal;
}

}  // namespace moepack::runtime
