#include "runtime-shim/calibrate/feedback.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "libshard/base/parallel.h"
#include "quant/levels.h"
#include "quant/point_grids.h"
#include "runtime-shim/calibrate/level_chooser.h"
#include "runtime-shim/calibrate/nearest_points.h"
#include "runtime-shim/calibrate/tile.h"

namespace moepack::runtime {
namespace {

constexpr size_t kLane = kPanelColumns;  // rows of the matrix that are encoded together
constexpr size_t kBlock = 16;            // columns whose products with all others are one step

// What the values of a type are chosen from; neither for a type that only its encoder knows.
struct Choices {
  explicit Choices(const quant::Format& format)
      : levels(quant::FindGrid(format)), points(quant::FindPointGrid(format)) {
    if (levels != nullptr) chooser.emplace(*levels);
    if (points != nullptr) book.emplace(*points);
  }
  bool any() const { return levels != nullptr || points != nullptr; }

  const quant::LevelGrid* levels;
  const quant::PointGrid* points;
  std::optional<LevelChooser> chooser;  // of the levels
  std::optional<PointBook> book;        // of the points
};

// The grids that the blocks of a tile's rows have.
struct TileGrid {
  explicit TileGrid(size_t columns) : base(columns), scale(columns), inverse(columns) {}
  Tile base, scale, inverse;
};

// ---- A tile of rows

class TileEncoder {
 public:
  TileEncoder(const FeedbackMatrix& matrix, const FeedbackFactor& factor, const Choices& choices)
      : matrix_(matrix),
        factor_(factor),
        choices_(choices),
        columns_(matrix.columns),
        wanted_(columns_),
        work_(columns_),
        errors_(columns_),
        scales_(columns_) {
    if (choices.levels != nullptr) levels_.resize(columns_ * kLane);
    if (choices.points == nullptr) return;
    points_.resize(columns_ / choices.points->size * kLane);
    minus_.resize(columns_ * kLane);
  }

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
          choices_.any() ? Choose(count, blocks) : Losses(count, blocks);
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

  // Replaces what can be chosen of the rows' blocks; returns each row's error.
  std::vector<double> Choose(size_t count, std::span<std::byte> blocks) {
    ReadGrids(count, blocks);
    const size_t step = choices_.points == nullptr ? 1 : choices_.points->size;
    std::vector<double> losses(count);
    Tile sums(kBlock), values(kMostOfPoint);
    for (size_t first = 0; first < columns_; first += kBlock) {
      const size_t end = std::min(first + kBlock, columns_);
      std::fill(sums.values.begin(), sums.values.end(), 0.0f);
      if (!factor_.alike())
        AddPanelProducts({factor_.column(first), columns_, end - first, first},
                         std::as_const(errors_).panel(), sums.panel());
      for (size_t k = first; k < end; k += step) {
        if (choices_.points != nullptr) {
          ChoosePoint(k, sums.panel(k - first), values);
        } else {
          ChooseLevel(k, sums.row(k - first), values.row(0));
        }
        for (size_t i = 0; i < step; ++i) Settle(k + i, {first, end}, values.row(i), sums, losses);
      }
    }
    choices_.points != nullptr ? PutPoints(count, blocks) : PutLevels(count, blocks);
    return losses;
  }

  // What the columns before have lost, and the column's own error, for the columns of its block.
  struct Block {
    size_t first = 0, end = 0;
  };
  void Settle(size_t k, const Block& block, const float* value, Tile& sums,
              std::vector<double>& losses) {
    const float* const target = wanted_.row(k);
    const float* const taken = sums.row(k - block.first);
    float* const error = errors_.row(k);
    for (size_t c = 0; c < kLane; ++c) error[c] = target[c] - value[c];
    for (size_t c = 0; c < losses.size(); ++c) {
      const double rounding = double{target[c] + taken[c]} - value[c];
      losses[c] += factor_.spreads()[k] * rounding * rounding;
    }
    if (factor_.alike()) return;
    for (size_t j = k + 1; j < block.end; ++j)
      Subtract(error, -factor_.column(j)[k], sums.row(j - block.first));
  }

  void ChooseLevel(size_t k, const float* taken, float* value) {
    std::array<float, kLane> wanted;
    for (size_t c = 0; c < kLane; ++c) wanted[c] = wanted_.row(k)[c] + taken[c];
    choices_.chooser->Choose(wanted.data(), scales_.base.row(k), scales_.scale.row(k),
                             scales_.inverse.row(k), levels_.data() + k * kLane, value);
  }

  // ---- The points of consecutive columns

  // V of columns [k + i, k + j], i <= j.
  float Upper(size_t k, size_t i, size_t j) const {
    return i == j ? 1 : factor_.alike() ? 0 : factor_.column(k + j)[k + i];
  }

  // With the errors F of the columns before and E of some from k on, the errors (E V)_k of these
  // are (W + F V^-1 - Q) V for their part of V: the nearest Q to U = W + F V^-1, where errors cost
  // V D V'. Sets U, less the bases, of `count` columns.
  void TargetsFrom(size_t k, size_t count, const Panel& taken, Tile& targets) const {
    Tile moved(count);  // F V^-1
    for (size_t i = 0; i < count; ++i) {
      std::copy_n(taken.row(i), kLane, moved.row(i));
      for (size_t j = 0; j < i; ++j) Subtract(moved.row(j), Upper(k, j, i), moved.row(i));
      for (size_t c = 0; c < kLane; ++c)
        targets.row(i)[c] = wanted_.row(k + i)[c] + moved.row(i)[c] - scales_.base.row(k + i)[c];
    }
  }

  // V D V' of `count` columns from k on.
  std::vector<float> CostsFrom(size_t k, size_t count) const {
    std::vector<float> costs(count * count);
    for (size_t i = 0; i < count; ++i) {
      for (size_t j = 0; j < count; ++j) {
        for (size_t m = std::max(i, j); m < count; ++m)
          costs[i * count + j] += Upper(k, i, m) * factor_.spreads()[k + m] * Upper(k, j, m);
      }
    }
    return costs;
  }

  // Chooses the points of the columns from k on, and sets their values.
  void ChoosePoint(size_t k, const Panel& taken, Tile& values) {
    const quant::PointGrid& grid = *choices_.points;
    const size_t size = grid.size;
    // The columns of a run whose signs are open.
    const size_t open = quant::kPointRun - k % quant::kPointRun;
    Tile targets(open), signs(open);
    TargetsFrom(k, open, taken, targets);
    ChooseSigns(k, targets, signs);
    for (size_t i = 0; i < size; ++i) {
      for (size_t c = 0; c < kLane; ++c) minus_[(k + i) * kLane + c] = signs.row(i)[c] < 0;
    }
    const std::vector<float> costs = CostsFrom(k, size);
    uint16_t* const chosen = points_.data() + k / size * kLane;
    NearestPoints(*choices_.book,
                  {targets.row(0), signs.row(0), scales_.scale.row(k), costs.data()}, chosen);
    for (size_t i = 0; i < size; ++i) {
      for (size_t c = 0; c < kLane; ++c)
        values.row(i)[c] = scales_.base.row(k + i)[c] + scales_.scale.row(k)[c] * signs.row(i)[c] *
                                                            grid.codes[chosen[c] * size + i];
    }
  }

  // The signs of the targets of the open columns of a run, of which k is the first. Where the run
  // must have an even number of minuses, the cheapest sign is turned.
  void ChooseSigns(size_t k, const Tile& targets, Tile& signs) const {
    const size_t open = targets.values.size() / kLane, before = quant::kPointRun - open;
    std::fill(signs.values.begin(), signs.values.end(), 1.0f);
    if (choices_.points->signs == quant::PointSigns::kNone) return;
    const std::vector<float> costs = CostsFrom(k, open);
    for (size_t c = 0; c < kLane; ++c) {
      size_t minuses = 0, cheapest = 0;
      for (size_t i = 0; i < before; ++i) minuses += minus_[(k - before + i) * kLane + c];
      float least = std::numeric_limits<float>::infinity();
      for (size_t i = 0; i < open; ++i) {
        const float target = targets.row(i)[c], cost = costs[i * open + i] * target * target;
        if (target < 0) signs.row(i)[c] = -1;
        minuses += target < 0;
        if (!(cost < least)) continue;
        least = cost;
        cheapest = i;
      }
      if (choices_.points->signs == quant::PointSigns::kEven && minuses % 2 == 1)
        signs.row(cheapest)[c] = -signs.row(cheapest)[c];
    }
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
      if (factor_.alike()) {
        std::copy(errors_.row(first), errors_.row(end), sums.values.begin());
      } else {
        // V' has ones on its diagonal and zeros above it.
        AddPanelProducts({factor_.column(first), columns_, end - first, end},
                         std::as_const(errors_).panel(), sums.panel());
      }
      for (size_t k = first; k < end; ++k) {
        for (size_t c = 0; c < count; ++c) {
          const double rounding = sums.row(k - first)[c];
          losses[c] += factor_.spreads()[k] * rounding * rounding;
        }
      }
    }
    return losses;
  }

  // ---- Blocks

  // Puts the lowest or the highest code in all places.
  void PutSame(bool high, std::span<std::byte> block) const {
    const size_t values = matrix_.format->block_values;
    if (choices_.levels != nullptr) {
      const LevelChooser& chooser = *choices_.chooser;
      const std::vector<uint8_t> same(values, high ? chooser.high : chooser.low);
      return choices_.levels->put(same, block);
    }
    const quant::PointGrid& grid = *choices_.points;
    const std::vector<uint16_t> same(values / grid.size,
                                     high ? static_cast<uint16_t>(grid.count() - 1) : 0);
    grid.put(same, std::vector<uint8_t>(values / quant::kPointRun), block);
  }

  // Base and scale of a value that is `low` and `high` with the lowest and the highest code.
  std::pair<float, float> GridOf(float low, float high) const {
    if (choices_.levels != nullptr) {
      const LevelChooser& chooser = *choices_.chooser;
      if (!chooser.codes.empty()) return {0.0f, low / chooser.low_code};
      return {low, (high - low) / chooser.high_code};
    }
    const quant::PointGrid& grid = *choices_.points;
    if (grid.signs != quant::PointSigns::kNone) return {0.0f, low / grid.codes.front()};
    const float scale = (high - low) / (grid.codes.back() - grid.codes.front());
    return {low - scale * grid.codes.front(), scale};
  }

  // What base and scale each value has, learned by decoding blocks.
  void ReadGrids(size_t count, std::span<const std::byte> blocks) {
    const quant::Format& format = *matrix_.format;
    const size_t values = format.block_values, bytes = format.block_bytes;
    std::vector<std::byte> block(bytes);
    std::vector<float> low(values), high(values);
    const size_t per_row = columns_ / values;
    std::vector<uint32_t> place(columns_);
    for (size_t k = 0; k < columns_; ++k) place[factor_.order()[k]] = static_cast<uint32_t>(k);
    for (size_t c = 0; c < count; ++c) {
      for (size_t b = 0; b < per_row; ++b) {
        const auto from = blocks.subspan((c * per_row + b) * bytes, bytes);
        std::copy(from.begin(), from.end(), block.begin());
        PutSame(false, block);
        format.decode(block, low);
        PutSame(true, block);
        format.decode(block, high);
        for (size_t i = 0; i < values; ++i) {
          const size_t k = place[b * values + i];
          const auto [base, scale] = GridOf(low[i], high[i]);
          scales_.base.row(k)[c] = base;
          scales_.scale.row(k)[c] = scale;
          const float inverse = 1 / scale;
          scales_.inverse.row(k)[c] = std::isfinite(inverse) ? inverse : 0;
        }
      }
    }
  }

  // Calls put(row, block, the first of its values) for the blocks of every row.
  template <class Put>
  void ForBlocks(size_t count, std::span<std::byte> blocks, const Put& put) const {
    const size_t bytes = matrix_.format->block_bytes, values = matrix_.format->block_values;
    const size_t per_row = columns_ / values;
    for (size_t c = 0; c < count; ++c) {
      for (size_t b = 0; b < per_row; ++b)
        put(c, blocks.subspan((c * per_row + b) * bytes, bytes), b * values);
    }
  }

  void PutLevels(size_t count, std::span<std::byte> blocks) {
    std::vector<uint8_t> rows(count * columns_);
    for (size_t k = 0; k < columns_; ++k) {
      for (size_t c = 0; c < count; ++c)
        rows[c * columns_ + factor_.order()[k]] = levels_[k * kLane + c];
    }
    ForBlocks(count, blocks, [&](size_t c, std::span<std::byte> block, size_t first) {
      const auto levels = std::span(rows).subspan(c * columns_ + first);
      choices_.levels->put(levels.first(matrix_.format->block_values), block);
    });
  }

  void PutPoints(size_t count, std::span<std::byte> blocks) {
    const quant::PointGrid& grid = *choices_.points;
    const size_t per_row = columns_ / grid.size, runs = columns_ / quant::kPointRun;
    std::vector<uint16_t> points(count * per_row);
    std::vector<uint8_t> signs(count * runs);
    for (size_t k = 0; k < columns_; ++k) {
      const size_t column = factor_.order()[k];
      for (size_t c = 0; c < count; ++c) {
        points[c * per_row + column / grid.size] = points_[k / grid.size * kLane + c];
        const auto minus = static_cast<uint8_t>(minus_[k * kLane + c] << column % quant::kPointRun);
        signs[c * runs + column / quant::kPointRun] |= minus;
      }
    }
    const size_t values = matrix_.format->block_values;
    ForBlocks(count, blocks, [&](size_t c, std::span<std::byte> block, size_t first) {
      grid.put(
          std::span(points).subspan(c * per_row + first / grid.size, values / grid.size),
          std::span(signs).subspan(c * runs + first / quant::kPointRun, values / quant::kPointRun),
          block);
    });
  }

  const FeedbackMatrix& matrix_;
  const FeedbackFactor& factor_;
  const Choices& choices_;
  size_t columns_;
  Tile wanted_, work_, errors_;
  TileGrid scales_;
  std::vector<uint8_t> levels_;   // [columns, kLane]
  std::vector<uint16_t> points_;  // [columns / size, kLane]
  std::vector<uint8_t> minus_;    // 1 for a minus, [columns, kLane]
};

}  // namespace

size_t ColumnsTogether(const quant::Format& format) {
  return quant::FindPointGrid(format) == nullptr ? 1 : quant::kPointRun;
}

std::vector<std::byte> EncodeWithFeedback(const FeedbackMatrix& matrix,
                                          const FeedbackFactor& factor,
                                          std::span<const std::vector<float>> importances,
                                          size_t jobs) {
  const size_t row_bytes = *matrix.format->BytesFor(matrix.columns);
  std::vector<std::byte> out(matrix.rows() * row_bytes);
  const Choices choices(*matrix.format);
  ForPieces(matrix.rows(), kLane, jobs, [&](size_t first, size_t end) {
    TileEncoder tile(matrix, factor, choices);
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
