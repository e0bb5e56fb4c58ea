#include "runtime-shim/calibrate/feedback.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "libshard/base/parallel.h"
#include "quant/levels.h"
#include "runtime-shim/calibrate/panels.h"
#include "runtime-shim/refit/cholesky.h"

namespace moepack::runtime {
namespace {

constexpr size_t kLane = kPanelColumns;  // rows of the matrix that are encoded together
constexpr size_t kBlock = 64;            // columns whose products with all others are one step

// A panel with memory: [rows, kLane].
struct Tile {
  explicit Tile(size_t rows) : values(rows * kLane) {}
  float* row(size_t k) { return values.data() + k * kLane; }
  const float* row(size_t k) const { return values.data() + k * kLane; }
  Panel panel(size_t k = 0) { return {row(k)}; }
  ConstPanel panel(size_t k = 0) const { return {row(k)}; }
  std::vector<float> values;
};

// ---- The levels of a type

// Nearest levels. Codes ascend; a value is base + scale * code.
struct Chooser {
  uint32_t count = 0;
  std::vector<float> codes;     // ascending; empty: 0, 1, 2, ...
  std::vector<uint8_t> levels;  // of the codes
  std::vector<float> middles;   // between neighbours
  uint8_t low = 0, high = 0;    // the levels of the first and last code
  float low_code = 0, high_code = 0;

  explicit Chooser(const quant::LevelGrid& grid) : count(grid.count) {
    high = static_cast<uint8_t>(count - 1);
    high_code = static_cast<float>(count - 1);
    if (grid.codes.empty()) return;
    levels.resize(count);
    std::iota(levels.begin(), levels.end(), uint8_t{0});
    std::stable_sort(levels.begin(), levels.end(),
                     [&](uint8_t a, uint8_t b) { return grid.codes[a] < grid.codes[b]; });
    for (const uint8_t level : levels) codes.push_back(grid.codes[level]);
    for (size_t i = 1; i < codes.size(); ++i) middles.push_back((codes[i - 1] + codes[i]) / 2);
    low = levels.front();
    high = levels.back();
    low_code = codes.front();
    high_code = codes.back();
  }

  // For each lane, the level nearest to `wanted`, and its value.
  void Choose(const float* wanted, const float* base, const float* scale, const float* inverse,
              uint8_t* level, float* value) const {
    if (!codes.empty()) return ChooseCode(wanted, scale, inverse, level, value);
    // Adding and subtracting this rounds to the nearest integer.
    constexpr float kRound = 12582912.0f;
    const auto top = static_cast<float>(count - 1);
    for (size_t c = 0; c < kLane; ++c) {
      const float q = (wanted[c] - base[c]) * inverse[c];
      const float bounded = std::min(std::max(q, 0.0f), top);
      const float rounded = (bounded + kRound) - kRound;
      level[c] = static_cast<uint8_t>(rounded);
      value[c] = base[c] + scale[c] * rounded;
    }
  }

 private:
  void ChooseCode(const float* wanted, const float* scale, const float* inverse, uint8_t* level,
                  float* value) const {
    for (size_t c = 0; c < kLane; ++c) {
      const float q = wanted[c] * inverse[c];
      size_t place = 0;
      for (const float middle : middles) place += q > middle;
      level[c] = levels[place];
      value[c] = scale[c] * codes[place];
    }
  }
};

// The grids that the blocks of a tile's rows have.
struct TileGrid {
  explicit TileGrid(size_t columns) : base(columns), scale(columns), inverse(columns) {}
  Tile base, scale, inverse;
};

// ---- A tile of rows

class TileEncoder {
 public:
  TileEncoder(const FeedbackMatrix& matrix, const FeedbackFactor& factor, const Chooser* chooser,
              const quant::LevelGrid* grid)
      : matrix_(matrix),
        factor_(factor),
        chooser_(chooser),
        grid_(grid),
        columns_(matrix.columns),
        wanted_(columns_),
        work_(columns_),
        errors_(columns_),
        scales_(columns_),
        levels_(columns_ * kLane) {}

  // Encodes rows [first, first + count) to `out`.
  void Encode(size_t first, size_t count, std::span<const std::vector<float>> importances,
              std::span<std::byte> out) {
    Take(first, count);
    MoveByDrift();
    std::vector<float> rows(count * columns_);
    for (size_t k = 0; k < columns_; ++k) {
      for (size_t c = 0; c < count; ++c)
        rows[c * columns_ + factor_.order()[k]] = wanted_.row(k)[c];
    }
    const size_t row_bytes = out.size() / count;
    std::vector<std::byte> blocks(out.size());
    std::vector<double> least(count, std::numeric_limits<double>::infinity());
    for (const std::vector<float>& importance : importances) {
      matrix_.format->encode(
          rows, matrix_.format->uses_importance ? importance : std::span<const float>(), blocks);
      const std::vector<double> losses =
          chooser_ ? ChooseLevels(count, blocks) : Losses(count, blocks);
      for (size_t c = 0; c < count; ++c) {
        if (!(losses[c] < least[c])) continue;
        least[c] = losses[c];
        std::copy_n(blocks.begin() + static_cast<ptrdiff_t>(c * row_bytes), row_bytes,
                    out.begin() + static_cast<ptrdiff_t>(c * row_bytes));
      }
    }
  }

 private:
  void Take(size_t first, size_t count) {
    for (size_t k = 0; k < columns_; ++k) {
      const uint32_t column = factor_.order()[k];
      for (size_t c = 0; c < kLane; ++c)
        wanted_.row(k)[c] = c < count ? matrix_.weights[(first + c) * columns_ + column] : 0;
    }
  }

  // W += W M (V D V')^-1, M the drift: two triangular systems.
  void MoveByDrift() {
    if (factor_.drift(0) == nullptr) return;
    std::fill(work_.values.begin(), work_.values.end(), 0.0f);
    AddPanelProducts({factor_.drift(0), columns_, columns_, columns_},
                     std::as_const(wanted_).panel(), work_.panel());
    Tile sums(kBlock);
    for (size_t end = columns_; end > 0;) {
      const size_t first = end - std::min(kBlock, end);
      std::fill(sums.values.begin(), sums.values.end(), 0.0f);
      AddPanelProducts({factor_.row(first) + end, columns_, end - first, columns_ - end},
                       std::as_const(work_).panel(end), sums.panel());
      for (size_t k = end; k-- > first;) {
        float* const z = work_.row(k);
        Subtract(sums.row(k - first), 1, z);
        for (size_t j = k + 1; j < end; ++j) Subtract(work_.row(j), factor_.row(k)[j], z);
      }
      end = first;
    }
    for (size_t k = 0; k < columns_; ++k) {
      for (size_t c = 0; c < kLane; ++c) work_.row(k)[c] /= factor_.spreads()[k];
    }
    for (size_t first = 0; first < columns_; first += kBlock) {
      const size_t end = std::min(first + kBlock, columns_);
      std::fill(sums.values.begin(), sums.values.end(), 0.0f);
      AddPanelProducts({factor_.column(first), columns_, end - first, first},
                       std::as_const(work_).panel(), sums.panel());
      for (size_t k = first; k < end; ++k) {
        float* const y = work_.row(k);
        Subtract(sums.row(k - first), 1, y);
        for (size_t j = first; j < k; ++j) Subtract(work_.row(j), factor_.column(k)[j], y);
      }
    }
    for (size_t i = 0; i < wanted_.values.size(); ++i) wanted_.values[i] += work_.values[i];
  }

  static void Subtract(const float* from, float factor, float* to) {
    for (size_t c = 0; c < kLane; ++c) to[c] -= factor * from[c];
  }

  // Replaces the levels of the rows' blocks; returns each row's error.
  std::vector<double> ChooseLevels(size_t count, std::span<std::byte> blocks) {
    ReadGrids(count, blocks);
    std::vector<double> losses(count);
    Tile sums(kBlock);
    std::array<float, kLane> wanted, value;
    for (size_t first = 0; first < columns_; first += kBlock) {
      const size_t end = std::min(first + kBlock, columns_);
      std::fill(sums.values.begin(), sums.values.end(), 0.0f);
      AddPanelProducts({factor_.column(first), columns_, end - first, first},
                       std::as_const(errors_).panel(), sums.panel());
      for (size_t k = first; k < end; ++k) {
        const float* const target = wanted_.row(k);
        float* const error = errors_.row(k);
        for (size_t c = 0; c < kLane; ++c) wanted[c] = target[c] + sums.row(k - first)[c];
        chooser_->Choose(wanted.data(), scales_.base.row(k), scales_.scale.row(k),
                         scales_.inverse.row(k), levels_.data() + k * kLane, value.data());
        for (size_t c = 0; c < kLane; ++c) error[c] = target[c] - value[c];
        for (size_t c = 0; c < count; ++c) {
          const double rounding = double{wanted[c]} - value[c];
          losses[c] += factor_.spreads()[k] * rounding * rounding;
        }
        for (size_t j = k + 1; j < end; ++j)
          Subtract(error, -factor_.column(j)[k], sums.row(j - first));
      }
    }
    PutLevels(count, blocks);
    return losses;
  }

  // The error of blocks as their encoder made them.
  std::vector<double> Losses(size_t count, std::span<const std::byte> blocks) {
    std::vector<float> decoded(count * columns_);
    matrix_.format->decode(blocks, decoded);
    std::vector<double> losses(count);
    Tile sums(kBlock);
    for (size_t k = 0; k < columns_; ++k) {
      for (size_t c = 0; c < kLane; ++c)
        errors_.row(k)[c] =
            c < count ? wanted_.row(k)[c] - decoded[c * columns_ + factor_.order()[k]] : 0;
    }
    for (size_t first = 0; first < columns_; first += kBlock) {
      const size_t end = std::min(first + kBlock, columns_);
      std::fill(sums.values.begin(), sums.values.end(), 0.0f);
      // V' has ones on its diagonal and zeros above it.
      AddPanelProducts({factor_.column(first), columns_, end - first, end},
                       std::as_const(errors_).panel(), sums.panel());
      for (size_t k = first; k < end; ++k) {
        for (size_t c = 0; c < count; ++c) {
          const double rounding = sums.row(k - first)[c];
          losses[c] += factor_.spreads()[k] * rounding * rounding;
        }
      }
    }
    return losses;
  }

  // What base and scale each value has, learned by decoding blocks with the lowest and the highest
  // code in all places.
  void ReadGrids(size_t count, std::span<const std::byte> blocks) {
    const quant::Format& format = *matrix_.format;
    const size_t values = format.block_values, bytes = format.block_bytes;
    std::vector<std::byte> block(bytes);
    std::vector<uint8_t> same(values);
    std::vector<float> low(values), high(values);
    const size_t per_row = columns_ / values;
    std::vector<uint32_t> place(columns_);
    for (size_t k = 0; k < columns_; ++k) place[factor_.order()[k]] = static_cast<uint32_t>(k);
    const bool table = !chooser_->codes.empty();
    for (size_t c = 0; c < count; ++c) {
      for (size_t b = 0; b < per_row; ++b) {
        const auto from = blocks.subspan((c * per_row + b) * bytes, bytes);
        std::copy(from.begin(), from.end(), block.begin());
        std::fill(same.begin(), same.end(), chooser_->low);
        grid_->put(same, block);
        format.decode(block, low);
        std::fill(same.begin(), same.end(), chooser_->high);
        grid_->put(same, block);
        format.decode(block, high);
        for (size_t i = 0; i < values; ++i) {
          const size_t k = place[b * values + i];
          const float scale =
              table ? low[i] / chooser_->low_code : (high[i] - low[i]) / chooser_->high_code;
          scales_.base.row(k)[c] = table ? 0 : low[i];
          scales_.scale.row(k)[c] = scale;
          const float inverse = 1 / scale;
          scales_.inverse.row(k)[c] = std::isfinite(inverse) ? inverse : 0;
        }
      }
    }
  }

  void PutLevels(size_t count, std::span<std::byte> blocks) {
    const size_t values = matrix_.format->block_values, bytes = matrix_.format->block_bytes;
    const size_t per_row = columns_ / values;
    std::vector<uint8_t> row(columns_);
    for (size_t c = 0; c < count; ++c) {
      for (size_t k = 0; k < columns_; ++k) row[factor_.order()[k]] = levels_[k * kLane + c];
      for (size_t b = 0; b < per_row; ++b)
        grid_->put(std::span(row).subspan(b * values, values),
                   blocks.subspan((c * per_row + b) * bytes, bytes));
    }
  }

  const FeedbackMatrix& matrix_;
  const FeedbackFactor& factor_;
  const Chooser* chooser_;
  const quant::LevelGrid* grid_;
  size_t columns_;
  Tile wanted_, work_, errors_;
  TileGrid scales_;
  std::vector<uint8_t> levels_;
};

}  // namespace

namespace {

// Calls work(row, column) for all of a square, small square by small square: transposed access to
// one would miss the cache at every step.
template <class Work>
void ForSquares(size_t n, size_t jobs, const Work& work) {
  constexpr size_t kSide = 32;
  ForPieces(n, kSide, jobs, [&](size_t top, size_t end) {
    for (size_t left = 0; left < n; left += kSide) {
      const size_t right = std::min(left + kSide, n);
      for (size_t row = top; row < end; ++row) {
        for (size_t column = left; column < right; ++column) work(row, column);
      }
    }
  });
}

}  // namespace

std::optional<FeedbackFactor> FeedbackFactor::Of(const InputMoments& moments, double damping,
                                                 size_t jobs) {
  const size_t n = moments.columns;
  const double mean = moments.mean();
  if (!std::isfinite(mean) || mean <= 0) return std::nullopt;
  FeedbackFactor made;
  made.order_.resize(n);
  std::iota(made.order_.begin(), made.order_.end(), 0u);
  std::stable_sort(made.order_.begin(), made.order_.end(), [&](uint32_t a, uint32_t b) {
    return moments.own[a * n + a] > moments.own[b * n + b];
  });
  // With the order reversed, A = L L' gives V D^1/2 as L turned around.
  std::vector<double> matrix(n * n);
  const auto column = [&](size_t m) { return made.order_[n - 1 - m]; };
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = i; j < n; ++j) matrix[i * n + j] = moments.own[column(i) * n + column(j)];
    matrix[i * n + i] += damping * mean;
  }
  if (!Cholesky::Of(matrix, n, jobs)) return std::nullopt;
  made.spreads_.resize(n);
  made.upper_.resize(n * n);
  made.lower_.resize(n * n);
  for (size_t k = 0; k < n; ++k) {
    const double root = matrix[(n - 1 - k) * n + n - 1 - k];
    made.spreads_[k] = static_cast<float>(root * root);
  }
  ForSquares(n, jobs, [&](size_t k, size_t j) {
    if (j > k) return;
    const double* const row = matrix.data() + (n - 1 - k) * n;
    const auto value = static_cast<float>(row[n - 1 - j] / row[n - 1 - k]);
    made.upper_[j * n + k] = value;
    made.lower_[k * n + j] = value;
  });
  if (moments.drift.empty()) return made;
  made.drift_.resize(n * n);
  ForSquares(n, jobs, [&](size_t k, size_t i) {
    made.drift_[k * n + i] = static_cast<float>(moments.drift[made.order_[i] * n + made.order_[k]]);
  });
  return made;
}

std::vector<std::byte> EncodeWithFeedback(const FeedbackMatrix& matrix,
                                          const FeedbackFactor& factor,
                                          std::span<const std::vector<float>> importances,
                                          size_t jobs) {
  const size_t row_bytes = *matrix.format->BytesFor(matrix.columns);
  std::vector<std::byte> out(matrix.rows() * row_bytes);
  const quant::LevelGrid* const grid = quant::FindGrid(*matrix.format);
  std::optional<Chooser> chooser;
  if (grid != nullptr) chooser.emplace(*grid);
  ForPieces(matrix.rows(), kLane, jobs, [&](size_t first, size_t end) {
    TileEncoder tile(matrix, factor, chooser ? &*chooser : nullptr, grid);
    tile.Encode(first, end - first, importances,
                std::span(out).subspan(first * row_bytes, (end - first) * row_bytes));
  });
  return out;
}

ProductErrors::ProductErrors(const InputMoments& moments)
    : columns_(moments.columns), own_(moments.own.begin(), moments.own.end()) {
  if (moments.drift.empty()) return;
  const size_t n = columns_;
  drift_.resize(n * n);
  ForSquares(n, 1, [&](size_t i, size_t j) {
    drift_[j * n + i] = static_cast<float>(-2 * moments.drift[i * n + j]);
  });
}

double ProductErrors::Of(const FeedbackMatrix& matrix, std::span<const std::byte> encoded,
                         size_t jobs) const {
  const size_t n = columns_, row_bytes = *matrix.format->BytesFor(n);
  const size_t pieces = (matrix.rows() + kLane - 1) / kLane;
  std::vector<double> sums(pieces);
  ForPieces(matrix.rows(), kLane, jobs, [&](size_t first, size_t end) {
    const size_t count = end - first;
    std::vector<float> decoded(count * n);
    matrix.format->decode(encoded.subspan(first * row_bytes, count * row_bytes), decoded);
    Tile weights(n), errors(n), products(n);
    for (size_t k = 0; k < n; ++k) {
      for (size_t c = 0; c < count; ++c) {
        weights.row(k)[c] = matrix.weights[(first + c) * n + k];
        // Q - W, so that the product with the drift has the sign of the formula.
        errors.row(k)[c] = decoded[c * n + k] - weights.row(k)[c];
      }
    }
    AddPanelProducts({own_.data(), n, n, n}, std::as_const(errors).panel(), products.panel());
    if (!drift_.empty())
      AddPanelProducts({drift_.data(), n, n, n}, std::as_const(weights).panel(), products.panel());
    double sum = 0;
    for (size_t i = 0; i < errors.values.size(); ++i)
      sum += double{errors.values[i]} * products.values[i];
    sums[first / kLane] = sum;
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace moepack::runtime
