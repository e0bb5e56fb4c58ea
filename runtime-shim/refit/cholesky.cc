#include "runtime-shim/refit/cholesky.h"

// We use our own threads.
#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>

#include "libshard/base/parallel.h"

namespace moepack::runtime {
namespace {

using MatrixMap = Eigen::Map<Eigen::MatrixXd>;
using ConstMatrixMap = Eigen::Map<const Eigen::MatrixXd>;

// A fixed width, so that the number of threads does not change how a sum is divided.
constexpr size_t kColumnsOfBlock = 64;

// Eigen divides products into blocks that fit the caches, and so would add in a different order on
// another machine. All machines can use these sizes.
void FixBlocks() {
  static const bool fixed = [] {
    Eigen::setCpuCacheSizes(32 << 10, 256 << 10, 2 << 20);
    return true;
  }();
  static_cast<void>(fixed);
}

size_t BlocksOfColumns(size_t columns) { return (columns + kColumnsOfBlock - 1) / kColumnsOfBlock; }

}  // namespace

std::optional<Cholesky> Cholesky::Of(std::vector<double> matrix, size_t size) {
  FixBlocks();
  Cholesky made;
  made.size_ = size;
  made.factor_ = std::move(matrix);
  const auto rows = static_cast<Eigen::Index>(size);
  MatrixMap in_place(made.factor_.data(), rows, rows);
  // Stored row by row, the lower triangle of the matrix is Eigen's upper one.
  in_place.triangularView<Eigen::StrictlyLower>() =
      in_place.transpose().triangularView<Eigen::StrictlyLower>();
  const Eigen::LLT<Eigen::Ref<Eigen::MatrixXd>, Eigen::Lower> factor(in_place);
  if (factor.info() != Eigen::Success) return std::nullopt;
  for (Eigen::Index i = 0; i < rows; ++i) {
    // Eigen reports a negative pivot, but lets a NaN pass.
    if (!std::isfinite(in_place(i, i)) || in_place(i, i) <= 0) return std::nullopt;
  }
  return made;
}

void Cholesky::Solve(std::span<double> right, size_t columns, size_t jobs) const {
  const auto rows = static_cast<Eigen::Index>(size_);
  const ConstMatrixMap factor(factor_.data(), rows, rows);
  const Status done = ParallelFor(BlocksOfColumns(columns), jobs, [&](size_t block) -> Status {
    const size_t first = block * kColumnsOfBlock,
                 count = std::min(kColumnsOfBlock, columns - first);
    Eigen::MatrixXd part(rows, static_cast<Eigen::Index>(count));
    for (size_t row = 0; row < size_; ++row) {
      for (size_t i = 0; i < count; ++i)
        part(static_cast<Eigen::Index>(row), static_cast<Eigen::Index>(i)) =
            right[row * columns + first + i];
    }
    factor.triangularView<Eigen::Lower>().solveInPlace(part);
    factor.triangularView<Eigen::Lower>().transpose().solveInPlace(part);
    for (size_t row = 0; row < size_; ++row) {
      for (size_t i = 0; i < count; ++i)
        right[row * columns + first + i] =
            part(static_cast<Eigen::Index>(row), static_cast<Eigen::Index>(i));
    }
    return Ok();
  });
  static_cast<void>(done);  // the work has no errors
}

// With A = L L', the inverse is L^-T L^-1, so its diagonal has the squared norms of the columns of
// L^-1. Column j of it starts at row j.
std::vector<double> Cholesky::InverseDiagonal(size_t jobs) const {
  const auto rows = static_cast<Eigen::Index>(size_);
  const ConstMatrixMap factor(factor_.data(), rows, rows);
  std::vector<double> diagonal(size_);
  const Status done = ParallelFor(BlocksOfColumns(size_), jobs, [&](size_t block) -> Status {
    const auto first = static_cast<Eigen::Index>(block * kColumnsOfBlock);
    const Eigen::Index left = rows - first;
    const Eigen::Index count = std::min(static_cast<Eigen::Index>(kColumnsOfBlock), left);
    Eigen::MatrixXd part = Eigen::MatrixXd::Identity(left, count);
    factor.bottomRightCorner(left, left).triangularView<Eigen::Lower>().solveInPlace(part);
    for (Eigen::Index i = 0; i < count; ++i)
      diagonal[static_cast<size_t>(first + i)] = part.col(i).squaredNorm();
    return Ok();
  });
  static_cast<void>(done);
  return diagonal;
}

}  // namespace moepack::runtime
