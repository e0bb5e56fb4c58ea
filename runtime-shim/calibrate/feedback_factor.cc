#include "runtime-shim/calibrate/feedback_factor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "libshard/base/parallel.h"
#include "runtime-shim/calibrate/tile.h"

namespace moepack::runtime {
namespace {

constexpr size_t kRowsOfFactor = 64;  // that a thread updates at a time

// Moments as Shrinking makes them.
class Shrunk {
 public:
  Shrunk(const InputMoments& moments, const Shrinking& shrinking)
      : moments_(moments), layer_(shrinking.amount == 0 ? nullptr : shrinking.towards) {
    if (shrinking.amount == 0) return;
    const double wide = static_cast<double>(moments.columns) * shrinking.amount;
    rest_ = wide / (static_cast<double>(moments.tokens) + wide);
    if (layer_ != nullptr) scale_ = rest_ * moments.trace() / layer_->trace();
  }
  double Own(size_t row, size_t column) const {
    const size_t at = row * moments_.columns + column;
    if (layer_ != nullptr) return (1 - rest_) * moments_.own[at] + scale_ * layer_->own[at];
    return row == column ? moments_.own[at] : (1 - rest_) * moments_.own[at];
  }
  double Drift(size_t row, size_t column) const {
    const size_t at = row * moments_.columns + column;
    const double own = (1 - rest_) * moments_.drift[at];
    return layer_ != nullptr ? own + scale_ * layer_->drift[at] : own;
  }

 private:
  const InputMoments& moments_;
  const InputMoments* layer_;
  double rest_ = 0, scale_ = 0;  // u, and what multiplies the layer's
};

// Replaces the lower triangle of a matrix [n, n] by its Cholesky factor, kPanelColumns columns at a
// time: the products of the columns before are subtracted, then the columns are factored. In F32:
// the damping keeps the matrix far from singular, and the factor only decides what other columns
// take up. False if a pivot is not positive.
bool Factorize(std::vector<float>& matrix, size_t n, size_t jobs) {
  constexpr size_t kWide = kPanelColumns;
  for (size_t first = 0; first < n; first += kWide) {
    const size_t wide = std::min(kWide, n - first);
    Tile before(first);
    for (size_t c = 0; c < wide; ++c) {
      for (size_t k = 0; k < first; ++k) before.row(k)[c] = matrix[(first + c) * n + k];
    }
    const auto subtract = [&](size_t top, size_t end) {
      Tile sums(end - top);
      AddPanelProducts({matrix.data() + top * n, n, end - top, first},
                       std::as_const(before).panel(), sums.panel());
      for (size_t row = top; row < end; ++row) {
        for (size_t c = 0; c < wide; ++c) matrix[row * n + first + c] -= sums.row(row - top)[c];
      }
    };
    subtract(first, first + wide);
    std::array<std::array<float, kWide>, kWide> column;  // of the factor's square, by column
    for (size_t k = 0; k < wide; ++k) {
      for (size_t i = k; i < wide; ++i) {
        double sum = matrix[(first + i) * n + first + k];
        for (size_t m = 0; m < k; ++m) sum -= double{column[m][i]} * column[m][k];
        if (i == k && !(sum > 0 && std::isfinite(sum))) return false;
        column[k][i] = static_cast<float>(i == k ? std::sqrt(sum) : sum / column[k][k]);
        matrix[(first + i) * n + first + k] = column[k][i];
      }
    }
    ForPieces(n - first - wide, kRowsOfFactor, jobs, [&](size_t begin, size_t end) {
      const size_t below = first + wide;
      subtract(below + begin, below + end);
      for (size_t row = below + begin; row < below + end; ++row) {
        float* const x = matrix.data() + row * n + first;
        for (size_t k = 0; k < wide; ++k) {
          x[k] /= column[k][k];
          for (size_t c = k + 1; c < wide; ++c) x[c] -= x[k] * column[k][c];
        }
      }
    });
  }
  return true;
}

// Columns by falling diagonal, those that stay together by its sum.
std::vector<uint32_t> OrderOf(const InputMoments& moments, size_t together) {
  const size_t n = moments.columns;
  std::vector<double> sums(n / together);
  for (size_t i = 0; i < n; ++i) sums[i / together] += moments.own[i * n + i];
  std::vector<uint32_t> groups(sums.size()), order;
  std::iota(groups.begin(), groups.end(), 0u);
  std::stable_sort(groups.begin(), groups.end(),
                   [&](uint32_t a, uint32_t b) { return sums[a] > sums[b]; });
  for (const uint32_t group : groups) {
    for (size_t i = 0; i < together; ++i)
      order.push_back(static_cast<uint32_t>(group * together + i));
  }
  return order;
}

}  // namespace

std::optional<FeedbackFactor> FeedbackFactor::Of(const InputMoments& moments,
                                                 const Shrinking& shrinking,
                                                 const FactorOptions& options) {
  const size_t n = moments.columns, jobs = options.jobs;
  const double mean = moments.mean();
  if (!std::isfinite(mean) || mean <= 0) return std::nullopt;
  FeedbackFactor made;
  made.order_ = OrderOf(moments, options.together);
  const Shrunk shrunk(moments, shrinking);
  // With the order reversed, A = L L' gives V D^1/2 as L turned around.
  std::vector<float> matrix(n * n);
  ForPieces(n, kPanelColumns, jobs, [&](size_t first, size_t end) {
    for (size_t i = first; i < end; ++i) {
      const size_t row = made.order_[n - 1 - i];
      for (size_t j = 0; j <= i; ++j)
        matrix[i * n + j] = static_cast<float>(shrunk.Own(row, made.order_[n - 1 - j]));
      matrix[i * n + i] += static_cast<float>(options.damping * mean);
    }
  });
  if (!Factorize(matrix, n, jobs)) return std::nullopt;
  made.spreads_.resize(n);
  std::vector<float> inverses(n);
  for (size_t k = 0; k < n; ++k) {
    const float root = matrix[(n - 1 - k) * n + n - 1 - k];
    made.spreads_[k] = root * root;
    inverses[k] = 1 / root;
  }
  made.upper_.resize(n * n);
  made.lower_.resize(n * n);
  ForSquares(n, jobs, [&](size_t j, size_t k) {
    if (j > k) return;
    const float value = matrix[(n - 1 - j) * n + n - 1 - k] * inverses[k];
    made.upper_[j * n + k] = value;
    made.lower_[k * n + j] = value;
  });
  if (moments.drift.empty()) return made;
  made.drift_.resize(n * n);
  ForSquares(n, jobs, [&](size_t i, size_t k) {
    made.drift_[k * n + i] = static_cast<float>(shrunk.Drift(made.order_[i], made.order_[k]));
  });
  return made;
}

FeedbackFactor FeedbackFactor::Alike(size_t columns) {
  FeedbackFactor made;
  made.order_.resize(columns);
  std::iota(made.order_.begin(), made.order_.end(), 0u);
  made.spreads_.assign(columns, 1);
  return made;
}

}  // namespace moepack::runtime
