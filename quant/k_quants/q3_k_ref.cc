#include <algorithm>
#include <array>
#include <cmath>

#include "quant/half.h"
#include "quant/k_quants/q3_k.h"
#include "quant/rounding.h"

namespace quant {
namespace {

constexpr size_t kGroups = BlockQ3K::kGroups;
constexpr size_t kGroupValues = kSuperBlock / kGroups;
constexpr int kLevels = kQ3KLevels;
constexpr int kScaleLevels = kQ3KScaleLevels;

void Pack(const LevelsQ3K& scales, uint8_t (&packed)[12]) {
  for (size_t j = 0; j < 8; ++j) {
    packed[j] = static_cast<uint8_t>((scales[j] & 15) | scales[j + 8] << 4);
  }
  for (size_t j = 0; j < 4; ++j) {
    unsigned upper = 0;
    for (unsigned k = 0; k < 4; ++k) upper |= (scales[j + 4 * k] >> 4 & 3u) << 2 * k;
    packed[8 + j] = static_cast<uint8_t>(upper);
  }
}

// Rounds the group scales to six bits so that the one of largest magnitude gets -32, and returns
// the scale of the scales. If all are zero, s is 0 and not 32.
uint16_t RoundToLargest(const FloatsQ3K& scales, LevelsQ3K& levels) {
  const float largest = LargestByMagnitude(scales);
  levels.fill(0);
  if (largest == 0) return 0;
  const float inverse = -static_cast<float>(kScaleLevels) / largest;
  for (size_t j = 0; j < kGroups; ++j) {
    // The detour through int8_t is ggml's: a level that overflows a byte wraps before it is
    // clamped.
    const int level = static_cast<int8_t>(NearestInt(inverse * scales[j]));
    levels[j] =
        static_cast<uint8_t>(kScaleLevels + std::clamp(level, -kScaleLevels, kScaleLevels - 1));
  }
  return ScaleToHalf(1 / inverse);
}

using GroupLevels = std::array<int, kGroupValues>;

// Moves each integer to its optimum given all others; the weight of a value is its square. Returns
// true if one moved.
bool MoveSingleLevels(Values group, LevelFit& fit, GroupLevels& levels) {
  bool moved = false;
  for (size_t i = 0; i < kGroupValues; ++i) {
    const float x = group[i], weight = x * x;
    LevelFit others = fit;
    others.Remove(weight, x, levels[i]);
    if (!(others.xl > 0)) continue;
    const int level = NearestLevel(x * others.ll / others.xl, -kLevels, kLevels - 1);
    if (level == levels[i]) continue;
    others.Add(weight, x, level);
    if (!(others.ll > 0 && others.BetterThan(fit))) continue;
    levels[i] = level;
    fit = others;
    moved = true;
  }
  return moved;
}

// Without importance the search starts from one scale and improves the integers one by one:
// make_q3_quants of ggml-quants.c.
float FitGroup(Values group, std::span<uint8_t> q) {
  const float largest = LargestByMagnitude(group);
  if (std::abs(largest) < kZeroGroup) {
    std::fill(q.begin(), q.end(), uint8_t{0});
    return 0;
  }
  const float inverse = -static_cast<float>(kLevels) / largest;
  GroupLevels levels;
  LevelFit fit;
  for (size_t i = 0; i < kGroupValues; ++i) {
    levels[i] = NearestLevel(inverse * group[i], -kLevels, kLevels - 1);
    fit.Add(group[i] * group[i], group[i], levels[i]);
  }
  // Five rounds, as ggml has them: the bytes depend on where it stops.
  for (int round = 0; round < 5 && MoveSingleLevels(group, fit, levels); ++round) continue;
  for (size_t i = 0; i < kGroupValues; ++i) q[i] = static_cast<uint8_t>(levels[i] + kLevels);
  return fit.Scale();
}

void FitPlain(Values values, BlockQ3K& block, Levels& q) {
  FloatsQ3K scales;
  for (size_t j = 0; j < kGroups; ++j)
    scales[j] = FitGroup(GroupOf<kGroupValues>(values, j), GroupOf<kGroupValues>(q, j));
  LevelsQ3K levels;
  block.d = RoundToLargest(scales, levels);
  Pack(levels, block.packed);
}

void FitWithImportance(Values values, Values importance, BlockQ3K& block, Levels& q) {
  // Twice the mean square, as sigma2 in quantize_row_q3_K_impl of ggml-quants.c.
  const float spread = 2 * SumOfSquares(values) / static_cast<float>(kSuperBlock);
  FloatsQ3K scales, weight_sums;
  for (size_t j = 0; j < kGroups; ++j) {
    const Values group = GroupOf<kGroupValues>(values, j);
    std::array<float, kGroupValues> weights;
    WeighByImportance(group, GroupOf<kGroupValues>(importance, j), spread, weights);
    weight_sums[j] = Sum(weights);
    scales[j] = FitSigned({group, weights}, kLevels, GroupOf<kGroupValues>(q, j));
  }
  LevelsQ3K levels;
  const float d = FitSigned({scales, weight_sums}, kScaleLevels, levels);
  SetScalesQ3K(d, levels, block);
}

BlockQ3K EncodeBlock(Values values, Values importance) {
  BlockQ3K block;
  Levels q;
  if (importance.empty()) {
    FitPlain(values, block, q);
  } else {
    FitWithImportance(values, importance, block, q);
  }
  for (size_t j = 0; j < kGroups; ++j) {
    // Rounding the scales moved every grid point, so the integers are chosen again.
    RequantizeSigned(GroupOf<kGroupValues>(values, j), block.GroupScale(j), kLevels,
                     GroupOf<kGroupValues>(q, j));
  }
  PackQ3K(q, block);
  return block;
}

void DecodeBlock(const BlockQ3K& block, std::span<float> out) {
  for (size_t j = 0; j < kGroups; ++j) {
    const float scale = block.GroupScale(j);
    for (size_t i = kGroupValues * j; i < kGroupValues * (j + 1); ++i) {
      const auto q = static_cast<int>(TwoBitsOf(block.qs, i) | OneBitOf(block.hmask, i) << 2);
      out[i] = scale * static_cast<float>(q - kLevels);
    }
  }
}

}  // namespace

void SetScalesQ3K(float d, const LevelsQ3K& levels, BlockQ3K& block) {
  block.d = ScaleToHalf(d);
  Pack(levels, block.packed);
}

void EncodeQ3KRef(Values values, Values importance, std::span<std::byte> out) {
  EncodeBlocks<BlockQ3K>(values, importance, out, EncodeBlock);
}

void DecodeQ3KRef(std::span<const std::byte> blocks, std::span<float> out) {
  DecodeBlocks<BlockQ3K>(blocks, out, DecodeBlock);
}

}  // namespace quant
