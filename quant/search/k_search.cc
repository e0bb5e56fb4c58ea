#include "quant/search/k_search.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>

#include "quant/rounding.h"

namespace quant {
namespace {

// The largest group of any format.
constexpr size_t kMaxGroup = 32;

LevelFit FitAtScale(const WeightedGroup& group, int levels, float inverse) {
  LevelFit fit;
  for (size_t i = 0; i < group.values.size(); ++i) {
    fit.Add(group.weights[i], group.values[i],
            NearestLevel(inverse * group.values[i], -levels, levels - 1));
  }
  return fit;
}

void QuantizeSigned(Values values, int levels, float inverse, std::span<uint8_t> q) {
  for (size_t i = 0; i < values.size(); ++i) {
    q[i] = static_cast<uint8_t>(levels + NearestLevel(inverse * values[i], -levels, levels - 1));
  }
}

}  // namespace

float SumOfSquares(Values values) {
  float sum = 0;
  for (const float x : values) sum += x * x;
  return sum;
}

float Sum(Values values) {
  float sum = 0;
  for (const float x : values) sum += x;
  return sum;
}

void WeighByImportance(Values values, Values importance, float spread, std::span<float> weights) {
  for (size_t i = 0; i < values.size(); ++i) {
    weights[i] = importance[i] * std::sqrt(spread + values[i] * values[i]);
  }
}

float LargestByMagnitude(Values values) {
  float largest = 0;
  for (const float x : values) {
    if (std::abs(x) > std::abs(largest)) largest = x;
  }
  return largest;
}

int NearestLevel(float value, int lowest, int highest) {
  return std::clamp(NearestInt(value), lowest, highest);
}

float FitSigned(const WeightedGroup& group, int levels, std::span<uint8_t> q) {
  const float largest = LargestByMagnitude(group.values);
  if (std::abs(largest) < kZeroGroup) {
    std::fill(q.begin(), q.end(), uint8_t{0});
    return 0;
  }
  const float top = static_cast<float>(levels);
  float inverse = -top / largest;
  QuantizeSigned(group.values, levels, inverse, q);
  const LevelFit first = FitAtScale(group, levels, inverse);
  float scale = first.ll != 0 ? first.xl / first.ll : 0.0f;
  float best = scale * first.xl;
  // xl^2 / ll is compared as xl^2 * ll' > best' * ll, without a division: `best` is scale * xl =
  // xl^2 / ll.
  // Tenths of a level around the scale that reaches the largest value, as in make_qx_quants.
  for (int step = -9; step <= 9; ++step) {
    if (step == 0) continue;
    inverse = -(top + 0.1f * static_cast<float>(step)) / largest;
    const LevelFit fit = FitAtScale(group, levels, inverse);
    if (!(fit.ll > 0 && fit.xl * fit.xl > best * fit.ll)) continue;
    QuantizeSigned(group.values, levels, inverse, q);
    scale = fit.xl / fit.ll;
    best = scale * fit.xl;
  }
  return scale;
}

namespace {

// ggml has no lower bound here, so a scale made negative by a rounding error may get a negative
// level.
int PositiveLevel(float value, int levels) { return std::min(levels, NearestInt(value)); }

// ggml keeps the levels of the first scale in bytes without a bound, so negative ones become large.
// Only the first scale is evaluated this way, but the bytes of files depend on it.
int WrappedLevel(float value, int) { return static_cast<uint8_t>(NearestInt(value)); }

template <class LevelOf>
float ErrorAtScale(const WeightedGroup& group, int levels, float inverse, const LevelOf& level_of) {
  const float scale = 1 / inverse;
  float error = 0;
  for (size_t i = 0; i < group.values.size(); ++i) {
    const int level = level_of(inverse * group.values[i], levels);
    const float difference = group.values[i] - scale * static_cast<float>(level);
    error += group.weights[i] * difference * difference;
  }
  return error;
}

float BestInverseScale(const WeightedGroup& group, int levels, float max) {
  const float top = static_cast<float>(levels);
  float best_inverse = top / max;
  float best_error = ErrorAtScale(group, levels, best_inverse, WrappedLevel);
  // The same idea with nine scales, as in make_qp_quants.
  for (int step = -4; step <= 4; ++step) {
    if (step == 0) continue;
    const float inverse = (0.1f * static_cast<float>(step) + top) / max;
    const float error = ErrorAtScale(group, levels, inverse, PositiveLevel);
    if (error < best_error) {
      best_error = error;
      best_inverse = inverse;
    }
  }
  return best_inverse;
}

// Moves each integer to its optimum given all others. Returns true if one moved.
bool MoveSingleLevels(const WeightedGroup& group, int levels, LevelFit& fit, std::span<uint8_t> q) {
  bool moved = false;
  for (size_t i = 0; i < group.values.size(); ++i) {
    const float weight = group.weights[i], value = group.values[i];
    LevelFit others = fit;
    others.Remove(weight, value, q[i]);
    if (!(others.xl > 0 && others.ll > 0)) continue;
    const int level = PositiveLevel(value * others.ll / others.xl, levels);
    if (level == q[i]) continue;
    others.Add(weight, value, level);
    if (!others.BetterThan(fit)) continue;
    q[i] = static_cast<uint8_t>(level);
    fit = others;
    moved = true;
  }
  return moved;
}

}  // namespace

float FitPositive(const WeightedGroup& group, int levels, std::span<uint8_t> q) {
  float max = 0;
  for (const float x : group.values) max = std::max(max, x);
  if (max < kZeroGroup) {
    std::fill(q.begin(), q.end(), uint8_t{0});
    return 0;
  }
  const float inverse = BestInverseScale(group, levels, max);
  LevelFit fit;
  for (size_t i = 0; i < group.values.size(); ++i) {
    const int level = PositiveLevel(inverse * group.values[i], levels);
    q[i] = static_cast<uint8_t>(level);
    fit.Add(group.weights[i], group.values[i], level);
  }
  // Five rounds, as ggml has them: the bytes depend on where it stops.
  for (int round = 0; round < 5 && MoveSingleLevels(group, levels, fit, q); ++round) continue;
  return fit.Scale();
}

namespace {

// What FitScaleAndMin needs to know about the values at the start. `min` is never above 0, so that
// zero can always be represented.
struct Extent {
  float min, max;
  float sum_w, sum_wx;
};

Extent ExtentOf(const WeightedGroup& group) {
  const float x0 = group.values[0], w0 = group.weights[0];
  Extent extent{x0, x0, w0, w0 * x0};
  for (size_t i = 1; i < group.values.size(); ++i) {
    const float x = group.values[i], w = group.weights[i];
    if (x < extent.min) extent.min = x;
    if (x > extent.max) extent.max = x;
    extent.sum_w += w;
    extent.sum_wx += w * x;
  }
  if (extent.min > 0) extent.min = 0;
  return extent;
}

void QuantizeAbove(Values values, float min, float inverse, std::span<uint8_t> q, int levels) {
  for (size_t i = 0; i < values.size(); ++i) {
    q[i] = static_cast<uint8_t>(NearestLevel(inverse * (values[i] - min), 0, levels));
  }
}

// The weighted error of the approximation scale * q + min.
float ErrorOf(const WeightedGroup& group, std::span<const uint8_t> q, ScaleAndMin fit,
              bool absolute) {
  float error = 0;
  for (size_t i = 0; i < q.size(); ++i) {
    const float difference = fit.scale * static_cast<float>(q[i]) + fit.min - group.values[i];
    error += group.weights[i] * (absolute ? std::abs(difference) : difference * difference);
  }
  return error;
}

// Finds scale and min by weighted linear regression of the values on q, with min at 0 or below.
// Returns false if all weight is on one integer, because the determinant is then 0.
bool Regress(const WeightedGroup& group, std::span<const uint8_t> q, const Extent& extent,
             ScaleAndMin& fit) {
  float sum_l = 0, sum_ll = 0, sum_xl = 0;
  for (size_t i = 0; i < q.size(); ++i) {
    const float w = group.weights[i], l = static_cast<float>(q[i]);
    sum_l += w * l;
    sum_ll += w * l * l;
    sum_xl += w * l * group.values[i];
  }
  const float determinant = extent.sum_w * sum_ll - sum_l * sum_l;
  if (!(determinant > 0)) return false;
  fit.scale = (extent.sum_w * sum_xl - extent.sum_wx * sum_l) / determinant;
  fit.min = (sum_ll * extent.sum_wx - sum_l * sum_xl) / determinant;
  // Without a minimum the regression has one unknown left: xl / ll.
  if (fit.min > 0) fit = {sum_xl / sum_ll, 0};
  return true;
}

// Like FitScaleAndMin, but with min <= 0 and values = scale * q + min.
ScaleAndMin SearchGrid(const WeightedGroup& group, const ScaleGrid& grid, const Extent& extent,
                       std::span<uint8_t> q) {
  const float top = static_cast<float>(grid.levels);
  const float inverse = top / (extent.max - extent.min);
  ScaleAndMin best{1 / inverse, extent.min};
  QuantizeAbove(group.values, extent.min, inverse, q, grid.levels);
  float best_error = ErrorOf(group, q, best, grid.absolute_error);
  std::array<uint8_t, kMaxGroup> room;
  const auto candidate = std::span(room).first(q.size());
  for (int i = 0; i <= grid.last; ++i) {
    const float divisor = grid.first + grid.step * static_cast<float>(i) + top;
    // A better min shifts the range for the scales that follow.
    const float next_inverse = divisor / (extent.max - best.min);
    QuantizeAbove(group.values, best.min, next_inverse, candidate, grid.levels);
    ScaleAndMin fit;
    // The comparison below is false for NaN, so a fit that went wrong never wins.
    if (!Regress(group, candidate, extent, fit)) continue;
    const float error = ErrorOf(group, candidate, fit, grid.absolute_error);
    if (!(error < best_error)) continue;
    std::copy(candidate.begin(), candidate.end(), q.begin());
    best_error = error;
    best = fit;
  }
  return best;
}

}  // namespace

void RequantizeSigned(Values values, float scale, int levels, std::span<uint8_t> q) {
  if (scale == 0) return;
  for (size_t i = 0; i < values.size(); ++i) {
    q[i] = static_cast<uint8_t>(levels + NearestLevel(values[i] / scale, -levels, levels - 1));
  }
}

void RequantizeWithMin(Values values, ScaleAndMin fit, int levels, std::span<uint8_t> q) {
  if (fit.scale == 0) return;
  for (size_t i = 0; i < values.size(); ++i) {
    q[i] = static_cast<uint8_t>(NearestLevel((values[i] + fit.min) / fit.scale, 0, levels));
  }
}

ScaleAndMin FitScaleAndMin(const WeightedGroup& group, const ScaleGrid& grid,
                           std::span<uint8_t> q) {
  assert(q.size() == group.values.size() && q.size() <= kMaxGroup);
  const Extent extent = ExtentOf(group);
  if (extent.max <= extent.min) {
    std::fill(q.begin(), q.end(), uint8_t{0});
    return {0, -extent.min};
  }
  const ScaleAndMin best = SearchGrid(group, grid, extent, q);
  return {best.scale, -best.min};
}

}  // namespace quant
