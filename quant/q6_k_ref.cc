#include <algorithm>
#include <array>
#include <cmath>

#include "quant/half.h"
#include "quant/q6_k.h"
#include "quant/rounding.h"

namespace quant {
namespace {

constexpr size_t kGroups = BlockQ6K::kGroups;
constexpr size_t kGroupValues = kSuperBlock / kGroups;
constexpr int kLevels = 32;       // values: -32 ... 31
constexpr size_t kDistance = 64;  // of the two values of a byte of ql

using PerGroup = std::array<float, kGroups>;

// The importance is the weight as it is; without one the weight is the value's square.
float FitGroup(Values group, Values importance, std::span<uint8_t> q) {
  if (!importance.empty()) return FitSigned({group, importance}, kLevels, q);
  std::array<float, kGroupValues> squares;
  for (size_t i = 0; i < kGroupValues; ++i) squares[i] = group[i] * group[i];
  return FitSigned({group, squares}, kLevels, q);
}

// Rounds the group scales to eight bits so that the one of largest magnitude gets -128.
void RoundScales(const PerGroup& scales, float largest, BlockQ6K& block) {
  const float inverse = -128.0f / largest;
  block.d = ScaleToHalf(1 / inverse);
  for (size_t j = 0; j < kGroups; ++j) {
    block.scales[j] = static_cast<int8_t>(std::min(127, NearestInt(inverse * scales[j])));
  }
}

// A block of zeros is all zero bytes.
BlockQ6K EncodeBlock(Values values, Values importance) {
  BlockQ6K block{};
  Levels q;
  PerGroup scales;
  for (size_t j = 0; j < kGroups; ++j) {
    const Values weights = importance.empty() ? importance : GroupOf<kGroupValues>(importance, j);
    scales[j] = FitGroup(GroupOf<kGroupValues>(values, j), weights, GroupOf<kGroupValues>(q, j));
  }
  const float largest = LargestByMagnitude(scales);
  if (std::abs(largest) < kZeroGroup) return block;
  RoundScales(scales, largest, block);
  for (size_t j = 0; j < kGroups; ++j) {
    RequantizeSigned(GroupOf<kGroupValues>(values, j), block.GroupScale(j), kLevels,
                     GroupOf<kGroupValues>(q, j));
  }
  PackFourBits(q, kDistance, block.ql);
  PackTwoBits(q, 4, block.qh);
  return block;
}

void DecodeBlock(const BlockQ6K& block, std::span<float> out) {
  for (size_t j = 0; j < kGroups; ++j) {
    const float scale = block.GroupScale(j);
    for (size_t i = kGroupValues * j; i < kGroupValues * (j + 1); ++i) {
      const unsigned q = FourBitsOf(block.ql, kDistance, i) | TwoBitsOf(block.qh, i) << 4;
      out[i] = scale * static_cast<float>(static_cast<int>(q) - kLevels);
    }
  }
}

}  // namespace

float BlockQ6K::GroupScale(size_t group) const {
  return HalfToFloat(d) * static_cast<float>(scales[group]);
}

void EncodeQ6KRef(Values values, Values importance, std::span<std::byte> out) {
  EncodeBlocks<BlockQ6K>(values, importance, out, EncodeBlock);
}

void DecodeQ6KRef(std::span<const std::byte> blocks, std::span<float> out) {
  DecodeBlocks<BlockQ6K>(blocks, out, DecodeBlock);
}

}  // namespace quant
