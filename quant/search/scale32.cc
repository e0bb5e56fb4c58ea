#include "quant/search/scale32.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "quant/rounding.h"

namespace quant {
namespace {

using Weights = std::array<float, kGroup32>;

Weights WeightsOf(const Block32& block) {
  Weights weights;
  WeighByImportance(block.values, block.importance, block.spread, weights);
  return weights;
}

// A subnormal scale has an infinite inverse. The products do not fit an integer, so they become 0
// like everything that does not fit.
uint8_t TruncatedLevel(float value, int highest) {
  return static_cast<uint8_t>(std::min<int>(highest, static_cast<int8_t>(Truncate(value))));
}

// The value of largest magnitude gets q 0, which stands for -levels: there is one more level below
// zero than above, so none is wasted (quantize_row_q4_0_ref of ggml-quants.c).
float ScaleByLargest(Values values, int levels, Levels32 q) {
  const float scale = LargestByMagnitude(values) / -static_cast<float>(levels);
  const float inverse = scale != 0 ? 1.0f / scale : 0.0f;
  const float offset = static_cast<float>(levels) + 0.5f;
  for (size_t i = 0; i < kGroup32; ++i) {
    q[i] = TruncatedLevel(values[i] * inverse + offset, 2 * levels - 1);
  }
  return scale;
}

ScaleAndMin ScaleByRange(Values values, int levels, Levels32 q) {
  float min = std::numeric_limits<float>::max(), max = -min;
  for (const float x : values) {
    if (x < min) min = x;
    if (x > max) max = x;
  }
  // The extremes get the first and the last level (quantize_row_q4_1_ref of ggml-quants.c).
  const float scale = (max - min) / static_cast<float>(levels);
  const float inverse = scale != 0 ? 1.0f / scale : 0.0f;
  for (size_t i = 0; i < kGroup32; ++i) {
    q[i] = TruncatedLevel((values[i] - min) * inverse + 0.5f, levels);
  }
  return {scale, min};
}

}  // namespace

float FitScale(const Block32& block, int levels, Levels32 q) {
  if (block.importance.empty()) return ScaleByLargest(block.values, levels, q);
  const Weights weights = WeightsOf(block);
  return FitSigned({block.values, weights}, levels, q);
}

ScaleAndMin FitRange(const Block32& block, int levels, Levels32 q) {
  if (block.importance.empty()) return ScaleByRange(block.values, levels, q);
  // The grid of quantize_row_q4_1_impl and _q5_1_impl of ggml-quants.c.
  const ScaleGrid grid = {.levels = levels, .first = -0.9f, .step = 0.05f, .last = 36};
  const Weights weights = WeightsOf(block);
  const ScaleAndMin fit = FitScaleAndMin({block.values, weights}, grid, q);
  return {fit.scale, -fit.min};
}

float SpreadOfRow(Values row, Values importance) {
  if (importance.empty()) return 0;
  return SumOfSquares(row) / static_cast<float>(row.size());
}

}  // namespace quant
