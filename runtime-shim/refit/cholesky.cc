#include "runtime-shim/refit/cholesky.h"

// We use our own threads.
#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "libshard/base/parallel.h"

namespace moepack::runtime {
namespace {

using MatrixMap = Eigen::Map<Eigen::MatrixXd>;
using ConstMatrixMap = Eigen::Map<const Eigen::MatrixXd>;

// Fixed widths, so that the number of threads does not change how a sum is divided.
constexpr size_t kColumnsOfBlock = 64;
constexpr Eigen::Index kFactored = 128;  // columns that are factored before the rest is updated
constexpr size_t kTile = 128;            // rows and columns that a thread updates at a time

Eigen::Index Index(size_t i) { return static_cast<Eigen::Index>(i); }

// Eigen divides products into blocks that fit the caches, and so would add in a different order on
// another machine. All machines can use these sizes.
void FixBlocks() {
  static const bool fixed = [] {
    Eigen::setCpuCacheSizes(32 << 10, 256 << 10, 2 << 20);
    return true;
  }();
  static_cast<void>(fixed);
}

// Replaces the lower triangle by its factor, a block of columns at a time, as LAPACK's dpotrf does:
// the block is factored, and its products are subtracted from the columns after it. What is above
// the diagonal has no effect. False if a pivot is zero or negative; NaN passes.
bool Factorize(MatrixMap& matrix, size_t jobs) {
  const Eigen::Index size = matrix.rows();
  for (Eigen::Index first = 0; first < size; first += kFactored) {
    const Eigen::Index count = std::min(kFactored, size - first), below = first + count;
    auto diagonal = matrix.block(first, first, count, count);
    const Eigen::LLT<Eigen::Ref<Eigen::MatrixXd>, Eigen::Lower> factor(diagonal);
    if (factor.info() != Eigen::Success) return false;
    const auto rows_left = static_cast<size_t>(size - below);
    ForPieces(rows_left, kTile, jobs, [&](size_t top, size_t end) {
      auto rows = matrix.block(below + Index(top), first, Index(end - top), count);
      diagonal.transpose().triangularView<Eigen::Upper>().solveInPlace<Eigen::OnTheRight>(rows);
    });
    std::vector<std::pair<size_t, size_t>> corners;  // of the tiles below, by row and column
    for (size_t row = 0; row < rows_left; row += kTile) {
      for (size_t column = 0; column <= row; column += kTile) corners.emplace_back(row, column);
    }
    ForPieces(corners.size(), 1, jobs, [&](size_t i, size_t) {
      const auto [row, column] = corners[i];
      const Eigen::Index height = Index(std::min(kTile, rows_left - row)),
                         width = Index(std::min(kTile, rows_left - column));
      const Eigen::Index top = below + Index(row), left = below + Index(column);
      matrix.block(top, left, height, width).noalias() -=
          matrix.block(top, first, height, count) *
          matrix.block(left, first, width, count).transpose();
    });
  }
  return true;
}

}  // namespace

std::optional<Cholesky> Cholesky::Of(std::span<double> matrix, size_t size, size_t jobs) {
  FixBlocks();
  Cholesky made;
  made.size_ = size;
  made.factor_ = matrix;
  const auto rows = Index(size);
  // Stored row by row, the upper triangle of the matrix is Eigen's lower one.
  MatrixMap in_place(made.factor_.data(), rows, rows);
  if (!Factorize(in_place, jobs)) return std::nullopt;
  for (Eigen::Index i = 0; i < rows; ++i) {
    // Eigen reports a negative pivot, but lets a NaN pass.
    if (!std::isfinite(in_place(i, i)) || in_place(i, i) <= 0) return std::nullopt;
  }
  return made;
}

void Cholesky::Solve(std::span<double> right, size_t columns, size_t jobs) const {
  const auto rows = Index(size_);
  const ConstMatrixMap factor(factor_.data(), rows, rows);
  ForPieces(columns, kColumnsOfBlock, jobs, [&](size_t first, size_t end) {
    const size_t count = end - first;
    Eigen::MatrixXd part(rows, Index(count));
    for (size_t row = 0; row < size_; ++row) {
      for (size_t i = 0; i < count; ++i)
        part(Index(row), Index(i)) = right[row * columns + first + i];
    }
    factor.triangularView<Eigen::Lower>().solveInPlace(part);
    factor.triangularView<Eigen::Lower>().transpose().solveInPlace(part);
    for (size_t row = 0; row < size_; ++row) {
      for (size_t i = 0; i < count; ++i)
        right[row * columns + first + i] = part(Index(row), Index(i));
    }
  });
}

// With A = L L', the inverse is L^-T L^-1, so its diagonal has the squared norms of the columns of
// L^-1. Column j of it starts at row j.
std::vector<double> Cholesky::InverseDiagonal(size_t jobs) const {
  const auto rows = Index(size_);
  const ConstMatrixMap factor(factor_.data(), rows, rows);
  std::vector<double> diagonal(size_);
  ForPieces(size_, kColumnsOfBlock, jobs, [&](size_t first, size_t end) {
    const Eigen::Index left = rows - Index(first), count = Index(end - first);
    Eigen::MatrixXd part = Eigen::MatrixXd::Identity(left, count);
    factor.bottomRightCorner(left, left).triangularView<Eigen::Lower>().solveInPlace(part);
    for (Eigen::Index i = 0; i < count; ++i)
      diagonal[first + static_cast<size_t>(i)] = part.col(i).squaredNorm();
  });
  return diagonal;
}

}  // namespace moepack::runtime
