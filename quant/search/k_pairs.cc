#include "quant/search/k_pairs.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "quant/half.h"
#include "quant/rounding.h"

namespace quant {
namespace {

constexpr size_t kGroups = ScalePairs::kGroups;
constexpr size_t kGroupValues = ScalePairs::kGroupValues;
constexpr int kTop = kPairTop;

void Pack(const PairLevels& scales, const PairLevels& mins, uint8_t (&packed)[12]) {
  for (size_t j = 0; j < 4; ++j) {
    // Eight six-bit numbers fill twelve bytes only if four of them lend the top bits of theirs to
    // the others.
    packed[j] = static_cast<uint8_t>(scales[j] | scales[j + 4] >> 4 << 6);
    packed[j + 4] = static_cast<uint8_t>(mins[j] | mins[j + 4] >> 4 << 6);
    packed[j + 8] = static_cast<uint8_t>((scales[j + 4] & 15) | (mins[j + 4] & 15) << 4);
  }
}

// Rounds the group scales (or minimums) to six bits so that the largest gets 63, and returns the
// scale of the scales. A scale below 0, which a rounding error can produce, wraps around to a large
// byte and also gets 63.
float RoundToLargest(const PairFloats& scales, PairLevels& levels) {
  float largest = 0;
  for (const float scale : scales) {
    if (scale > largest) largest = scale;
  }
  const float inverse = largest > 0 ? static_cast<float>(kTop) / largest : 0.0f;
  for (size_t j = 0; j < kGroups; ++j) {
    const auto level = static_cast<uint8_t>(NearestInt(inverse * scales[j]));
    levels[j] = std::min<uint8_t>(kTop, level);
  }
  return largest / static_cast<float>(kTop);
}

// Large values matter more, but errors of small ones are not free, so the weight is |x| plus the
// group's root mean square (quantize_row_q4_K_ref and _q5_K_ref of ggml-quants.c).
ScalePairs FitPlain(Values values, const ScaleGrid& grid, Levels& q) {
  PairFloats scales, mins;
  for (size_t j = 0; j < kGroups; ++j) {
    const Values group = GroupOf<kGroupValues>(values, j);
    const float rms = std::sqrt(SumOfSquares(group) / static_cast<float>(kGroupValues));
    std::array<float, kGroupValues> weights;
    for (size_t i = 0; i < kGroupValues; ++i) weights[i] = rms + std::abs(group[i]);
    const ScaleAndMin fit = FitScaleAndMin({group, weights}, grid, GroupOf<kGroupValues>(q, j));
    scales[j] = fit.scale;
    mins[j] = fit.min;
  }
  PairLevels scale_levels, min_levels;
  const float d = RoundToLargest(scales, scale_levels);
  const float dmin = RoundToLargest(mins, min_levels);
  return MakePairs(d, dmin, scale_levels, min_levels);
}

float FitLevels(const WeightedGroup& scales, bool cap, PairLevels& levels) {
  const float scale = FitPositive(scales, kTop, levels);
  if (cap) CapPairLevels(levels);
  return scale;
}

ScalePairs FitWithImportance(Values values, Values importance, const PairSearch& search,
                             Levels& q) {
  // The factor 2 is that of quantize_row_q4_K_impl of ggml-quants.c (`sigma2`).
  const float spread = 2 * SumOfSquares(values) / static_cast<float>(kSuperBlock);
  PairFloats scales, mins, weight_sums;
  for (size_t j = 0; j < kGroups; ++j) {
    std::array<float, kGroupValues> weights;
    WeighByImportance(GroupOf<kGroupValues>(values, j), GroupOf<kGroupValues>(importance, j),
                      spread, weights);
    // A group of important values wants its own scale exact, so the scales are fitted with these
    // sums.
    weight_sums[j] = Sum(weights);
    const ScaleAndMin fit = FitScaleAndMin({GroupOf<kGroupValues>(values, j), weights},
                                           search.with_importance, GroupOf<kGroupValues>(q, j));
    scales[j] = fit.scale;
    mins[j] = fit.min;
  }
  PairLevels scale_levels, min_levels;
  const float d = FitLevels({scales, weight_sums}, search.cap_searched, scale_levels);
  const float dmin = FitLevels({mins, weight_sums}, search.cap_searched, min_levels);
  return MakePairs(d, dmin, scale_levels, min_levels);
}

}  // namespace

void CapPairLevels(PairLevels& levels) {
  for (uint8_t& level : levels) level = std::min<uint8_t>(kTop, level);
}

ScalePairs MakePairs(float d, float dmin, const PairLevels& scales, const PairLevels& mins) {
  ScalePairs pairs{ScaleToHalf(d), ScaleToHalf(dmin), {}};
  Pack(scales, mins, pairs.packed);
  return pairs;
}

ScalePairs FitPairs(Values values, Values importance, const PairSearch& search, Levels& q) {
  const ScalePairs pairs = importance.empty() ? FitPlain(values, search.plain, q)
                                              : FitWithImportance(values, importance, search, q);
  for (size_t j = 0; j < kGroups; ++j) {
    // Rounding the scales moved every grid point, so the integers are chosen again.
    RequantizeWithMin(GroupOf<kGroupValues>(values, j), pairs.Group(j), search.plain.levels,
                      GroupOf<kGroupValues>(q, j));
  }
  return pairs;
}

}  // namespace quant
