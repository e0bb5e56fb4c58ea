#include "runtime-shim/calibrate/feedback.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "libshard/base/parallel.h"
#include "quant/levels.h"
#include "runtime-shim/cpu/panels.h"

namespace moepack::runtime {
namespace {

constexpr size_t kLane = kPanelColumns;  // rows of the matrix that are encoded together
constexpr size_t kRowsOfFactor = 64;     // that a thread updates at a time
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

// ---- The factors

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

std::optional<FeedbackFactor> FeedbackFactor::Of(const InputMoments& moments,
                                                 const Shrinking& shrinking, double damping,
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
  const Shrunk shrunk(moments, shrinking);
  // With the order reversed, A = L L' gives V D^1/2 as L turned around.
  std::vector<float> matrix(n * n);
  ForPieces(n, kPanelColumns, jobs, [&](size_t first, size_t end) {
    for (size_t i = first; i < end; ++i) {
      const size_t row = made.order_[n - 1 - i];
      for (size_t j = 0; j <= i; ++j)
        matrix[i * n + j] = static_cast<float>(shrunk.Own(row, made.order_[n - 1 - j]));
      matrix[i * n + i] += static_cast<float>(damping * mean);
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
