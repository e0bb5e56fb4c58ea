#include <array>
#include <cmath>

#include "quant/half.h"
#include "quant/k_quants/q2_k.h"
#include "quant/rounding.h"

namespace quant {
namespace {

constexpr size_t kGroups = BlockQ2K::kGroups;
constexpr size_t kGroupValues = kSuperBlock / kGroups;
constexpr float kTop = static_cast<float>(kQ2KTopOfScale);

// Packs the scale into the low half. A level of more than four bits, which only a negative scale
// produces, spills into the minimum, as in ggml.
void Pack(const LevelsQ2K& scales, const LevelsQ2K& mins, BlockQ2K& block) {
  for (size_t j = 0; j < kGroups; ++j) {
    block.scales[j] = static_cast<uint8_t>(scales[j] | mins[j] << 4);
  }
}

// Rounds the group scales (or minimums) to four bits so that the largest gets 15, and returns the
// scale of the scales.
uint16_t RoundToLargest(const FloatsQ2K& scales, LevelsQ2K& levels) {
  float largest = 0;
  for (const float scale : scales) {
    if (scale > largest) largest = scale;
  }
  levels.fill(0);
  if (!(largest > 0)) return 0;
  const float inverse = kTop / largest;
  for (size_t j = 0; j < kGroups; ++j) {
    levels[j] = static_cast<uint8_t>(NearestInt(inverse * scales[j]));
  }
  return ScaleToHalf(largest / kTop);
}

BlockQ2K FitPlain(Values values, Levels& q) {
  FloatsQ2K scales, mins;
  for (size_t j = 0; j < kGroups; ++j) {
    const Values group = GroupOf<kGroupValues>(values, j);
    std::array<float, kGroupValues> weights;
    // The weight is |x|, as in quantize_row_q2_K_ref of ggml-quants.c.
    for (size_t i = 0; i < kGroupValues; ++i) weights[i] = std::abs(group[i]);
    const ScaleAndMin fit =
        FitScaleAndMin({group, weights}, kQ2KPlainGrid, GroupOf<kGroupValues>(q, j));
    scales[j] = fit.scale;
    mins[j] = fit.min;
  }
  return RoundQ2KToLargest(scales, mins);
}

BlockQ2K FitWithImportance(Values values, Values importance, Levels& q) {
  // quantize_row_q2_K_impl takes the plain mean square here; those of q3_K, q4_K and q5_K take
  // twice that.
  const float spread = SumOfSquares(values) / static_cast<float>(kSuperBlock);
  FloatsQ2K scales, mins, weight_sums;
  for (size_t j = 0; j < kGroups; ++j) {
    const Values group = GroupOf<kGroupValues>(values, j);
    std::array<float, kGroupValues> weights;
    WeighByImportance(group, GroupOf<kGroupValues>(importance, j), spread, weights);
    weight_sums[j] = Sum(weights);
    const ScaleAndMin fit =
        FitScaleAndMin({group, weights}, kQ2KImportanceGrid, GroupOf<kGroupValues>(q, j));
    scales[j] = fit.scale;
    mins[j] = fit.min;
  }
  LevelsQ2K scale_levels, min_levels;
  // With importance the scales are searched like values, with the weights of their groups
  // (quantize_row_q2_K_impl of ggml-quants.c).
  const float d = FitPositive({scales, weight_sums}, kQ2KTopOfScale, scale_levels);
  const float dmin = FitPositive({mins, weight_sums}, kQ2KTopOfScale, min_levels);
  return MakeScalesQ2K(d, dmin, scale_levels, min_levels);
}

BlockQ2K EncodeBlock(Values values, Values importance) {
  Levels q;
  BlockQ2K block =
      importance.empty() ? FitPlain(values, q) : FitWithImportance(values, importance, q);
  for (size_t j = 0; j < kGroups; ++j) {
    // Rounding the scales moved every grid point, so the integers are chosen again.
    RequantizeWithMin(GroupOf<kGroupValues>(values, j), block.Group(j), kQ2KTop,
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

BlockQ2K RoundQ2KToLargest(const FloatsQ2K& scales, const FloatsQ2K& mins) {
  BlockQ2K block{};
  LevelsQ2K scale_levels, min_levels;
  block.d = RoundToLargest(scales, scale_levels);
  block.dmin = RoundToLargest(mins, min_levels);
  Pack(scale_levels, min_levels, block);
  return block;
}

BlockQ2K MakeScalesQ2K(float d, float dmin, const LevelsQ2K& scales, const LevelsQ2K& mins) {
  BlockQ2K block{};
  block.d = ScaleToHalf(d);
  block.dmin = ScaleToHalf(dmin);
  Pack(scales, mins, block);
  return block;
}

void EncodeQ2KRef(Values values, Values importance, std::span<std::byte> out) {
  EncodeBlocks<BlockQ2K>(values, importance, out, EncodeBlock);
}

void DecodeQ2KRef(std::span<const std::byte> blocks, std::span<float> out) {
  DecodeBlocks<BlockQ2K>(blocks, out, DecodeBlock);
}

}  // namespace quant
