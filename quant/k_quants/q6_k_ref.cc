#include <algorithm>
#include <array>
#include <cmath>

#include "quant/half.h"
#include "quant/k_quants/q6_k.h"
#include "quant/rounding.h"

namespace quant {
namespace {

constexpr size_t kGroups = BlockQ6K::kGroups;
constexpr size_t kGroupValues = kSuperBlock / kGroups;
constexpr int kLevels = kQ6KLevels;

// The weight of a value is its importance; without importance it is the value's square.
float FitGroup(Values group, Values importance, std::span<uint8_t> q) {
  if (!importance.empty()) return FitSigned({group, importance}, kLevels, q);
  std::array<float, kGroupValues> squares;
  for (size_t i = 0; i < kGroupValues; ++i) squares[i] = group[i] * group[i];
  return FitSigned({group, squares}, kLevels, q);
}

BlockQ6K EncodeBlock(Values values, Values importance) {
  BlockQ6K block{};
  Levels q;
  FloatsQ6K scales;
  for (size_t j = 0; j < kGroups; ++j) {
    const Values weights = importance.empty() ? importance : GroupOf<kGroupValues>(importance, j);
    scales[j] = FitGroup(GroupOf<kGroupValues>(values, j), weights, GroupOf<kGroupValues>(q, j));
  }
  if (!RoundScalesQ6K(scales, block)) return block;
  for (size_t j = 0; j < kGroups; ++j) {
    // Rounding the scales moved every grid point, so the integers are chosen again.
    RequantizeSigned(GroupOf<kGroupValues>(values, j), block.GroupScale(j), kLevels,
                     GroupOf<kGroupValues>(q, j));
  }
  PackQ6K(q, block);
  return block;
}

void DecodeBlock(const BlockQ6K& block, std::span<float> out) {
  for (size_t j = 0; j < kGroups; ++j) {
    const float scale = block.GroupScale(j);
    for (size_t i = kGroupValues * j; i < kGroupValues * (j + 1); ++i) {
      const unsigned q = FourBitsOf(block.ql, kQ6KDistance, i) | TwoBitsOf(block.qh, i) << 4;
      out[i] = scale * static_cast<float>(static_cast<int>(q) - kLevels);
    }
  }
}

}  // namespace

bool RoundScalesQ6K(const FloatsQ6K& scales, BlockQ6K& block) {
  const float largest = LargestByMagnitude(scales);
  if (std::abs(largest) < kZeroGroup) return false;
  // A signed byte reaches one further below zero than above it, so the largest scale gets -128 and
  // d takes the opposite sign.
  const float inverse = -128.0f / largest;
  block.d = ScaleToHalf(1 / inverse);
  for (size_t j = 0; j < kGroups; ++j) {
    // A scale as large as the largest but of the other sign would get 128; none gets less than
    // -128.
    block.scales[j] = static_cast<int8_t>(std::min(127, NearestInt(inverse * scales[j])));
  }
  return true;
}

void EncodeQ6KRef(Values values, Values importance, std::span<std::byte> out) {
  EncodeBlocks<BlockQ6K>(values, importance, out, EncodeBlock);
}

void DecodeQ6KRef(std::span<const std::byte> blocks, std::span<float> out) {
  DecodeBlocks<BlockQ6K>(blocks, out, DecodeBlock);
}

}  // namespace quant
