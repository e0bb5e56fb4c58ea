#include <array>
#include <cmath>

#include "quant/half.h"
#include "quant/q2_k.h"
#include "quant/rounding.h"

namespace quant {
namespace {

constexpr size_t kGroups = BlockQ2K::kGroups;
constexpr size_t kGroupValues = kSuperBlock / kGroups;
constexpr int kTop = 3;          // of a value
constexpr int kTopOfScale = 15;  // of a group's scale or minimum

constexpr ScaleGrid kPlainGrid = {
    .levels = kTop, .first = -0.5f, .step = 0.1f, .last = 15, .absolute_error = true};
constexpr ScaleGrid kImportanceGrid = {.levels = kTop, .first = -0.9f, .step = 0.05f, .last = 36};

using PerGroup = std::array<float, kGroups>;
using PerGroupLevel = std::array<uint8_t, kGroups>;

// The scale in the low half; what does not fit four bits, which only a scale below 0 gives, spills
// into the minimum.
void Pack(const PerGroupLevel& scales, const PerGroupLevel& mins, BlockQ2K& block) {
  for (size_t j = 0; j < kGroups; ++j) {
    block.scales[j] = static_cast<uint8_t>(scales[j] | mins[j] << 4);
  }
}

// Rounds the group scales (or minimums) to four bits so that the largest gets 15; returns the scale
// of the scales.
uint16_t RoundToLargest(const PerGroup& scales, PerGroupLevel& levels) {
  float largest = 0;
  for (const float scale : scales) {
    if (scale > largest) largest = scale;
  }
  levels.fill(0);
  if (!(largest > 0)) return 0;
  const float top = static_cast<float>(kTopOfScale);
  const float inverse = top / largest;
  for (size_t j = 0; j < kGroups; ++j) {
    levels[j] = static_cast<uint8_t>(NearestInt(inverse * scales[j]));
  }
  return ScaleToHalf(largest / top);
}

void FitPlain(Values values, BlockQ2K& block, Levels& q) {
  PerGroup scales, mins;
  for (size_t j = 0; j < kGroups; ++j) {
    const Values group = GroupOf<kGroupValues>(values, j);
    std::array<float, kGroupValues> weights;
    for (size_t i = 0; i < kGroupValues; ++i) weights[i] = std::abs(group[i]);
    const ScaleAndMin fit =
        FitScaleAndMin({group, weights}, kPlainGrid, GroupOf<kGroupValues>(q, j));
    scales[j] = fit.scale;
    mins[j] = fit.min;
  }
  PerGroupLevel scale_levels, min_levels;
  block.d = RoundToLargest(scales, scale_levels);
  block.dmin = RoundToLargest(mins, min_levels);
  Pack(scale_levels, min_levels, block);
}

void FitWithImportance(Values values, Values importance, BlockQ2K& block, Levels& q) {
  const float spread = SumOfSquares(values) / static_cast<float>(kSuperBlock);
  PerGroup scales, mins, weight_sums;
  for (size_t j = 0; j < kGroups; ++j) {
    const Values group = GroupOf<kGroupValues>(values, j);
    std::array<float, kGroupValues> weights;
    WeighByImportance(group, GroupOf<kGroupValues>(importance, j), spread, weights);
    weight_sums[j] = Sum(weights);
    const ScaleAndMin fit =
        FitScaleAndMin({group, weights}, kImportanceGrid, GroupOf<kGroupValues>(q, j));
    scales[j] = fit.scale;
    mins[j] = fit.min;
  }
  PerGroupLevel scale_levels, min_levels;
  block.d = ScaleToHalf(FitPositive({scales, weight_sums}, kTopOfScale, scale_levels));
  block.dmin = ScaleToHalf(FitPositive({mins, weight_sums}, kTopOfScale, min_levels));
  Pack(scale_levels, min_levels, block);
}

BlockQ2K EncodeBlock(Values values, Values importance) {
  BlockQ2K block;
  Levels q;
  if (importance.empty()) {
    FitPlain(values, block, q);
  } else {
    FitWithImportance(values, importance, block, q);
  }
  for (size_t j = 0; j < kGroups; ++j) {
    RequantizeWithMin(GroupOf<kGroupValues>(values, j), block.Group(j), kTop,
                      GroupOf<kGroupValues>(q, j));
  }
  PackTwoBits(q, 0, block.qs);
  return block;
}

void DecodeBlock(const BlockQ2K& block, std::span<float> out) {
  for (size_t j = 0; j < kGroups; ++j) {
    const ScaleAndMin group = block.Group(j);
    for (size_t i = kGroupValues * j; i < kGroupValues * (j + 1); ++i) {
      out[i] = group.scale * static_cast<float>(TwoBitsOf(block.qs, i)) - group.min;
    }
  }
}

}  // namespace

ScaleAndMin BlockQ2K::Group(size_t group) const {
  return {HalfToFloat(d) * static_cast<float>(scales[group] & 15),
          HalfToFloat(dmin) * static_cast<float>(scales[group] >> 4)};
}

void EncodeQ2KRef(Values values, Values importance, std::span<std::byte> out) {
  EncodeBlocks<BlockQ2K>(values, importance, out, EncodeBlock);
}

void DecodeQ2KRef(std::span<const std::byte> blocks, std::span<float> out) {
  DecodeBlocks<BlockQ2K>(blocks, out, DecodeBlock);
}

}  // namespace quant
