#include "quant/half.h"
#include "quant/iq4.h"
#include "quant/iq4_xs.h"
#include "quant/k_search.h"

namespace quant {
namespace {

constexpr size_t kGroups = BlockIq4Xs::kGroups;
constexpr size_t kGroupValues = kSuperBlock / kGroups;
constexpr int kScaleLevels = 32;  // scales: -32 ... 31
constexpr size_t kDistance = 16;  // of the two values of a byte

using PerGroup = std::array<float, kGroups>;

PerGroup FitGroups(Values values, Values importance) {
  const float spread = Iq4Spread(values);
  PerGroup scales;
  for (size_t j = 0; j < kGroups; ++j) {
    const Values weights = importance.empty() ? importance : GroupOf<kGroupValues>(importance, j);
    scales[j] = FitIq4Scale(GroupOf<kGroupValues>(values, j), weights, spread);
  }
  return scales;
}

void SetScale(BlockIq4Xs& block, size_t group, int level) {
  const auto bits = static_cast<unsigned>(level + kScaleLevels);
  block.scales_l[group / 2] |= static_cast<uint8_t>((bits & 15) << group % 2 * 4);
  block.scales_h |= static_cast<uint16_t>(bits >> 4 << 2 * group);
}

// The group scale of largest magnitude gets -32. The codes are chosen for d before it is rounded
// to F16.
BlockIq4Xs EncodeBlock(Values values, Values importance) {
  const PerGroup scales = FitGroups(values, importance);
  const float d = -LargestByMagnitude(scales) / static_cast<float>(kScaleLevels);
  const float inverse = d != 0 ? 1 / d : 0.0f;
  BlockIq4Xs block{};
  block.d = ScaleToHalf(d);
  Levels q;
  for (size_t j = 0; j < kGroups; ++j) {
    const int level = NearestLevel(inverse * scales[j], -kScaleLevels, kScaleLevels - 1);
    SetScale(block, j, level);
    const float scale = d * static_cast<float>(level);
    const float inverse_scale = scale != 0 ? 1 / scale : 0.0f;
    for (size_t i = kGroupValues * j; i < kGroupValues * (j + 1); ++i) {
      q[i] = NearestIq4Code(inverse_scale * values[i]);
    }
  }
  PackFourBits(q, kDistance, block.qs);
  return block;
}

void DecodeBlock(const BlockIq4Xs& block, std::span<float> out) {
  for (size_t j = 0; j < kGroups; ++j) {
    const float scale = block.GroupScale(j);
    for (size_t i = kGroupValues * j; i < kGroupValues * (j + 1); ++i) {
      out[i] = scale * kIq4Codes[FourBitsOf(block.qs, kDistance, i)];
    }
  }
}

}  // namespace

float BlockIq4Xs::GroupScale(size_t group) const {
  const int low = scales_l[group / 2] >> group % 2 * 4 & 15;
  const int high = scales_h >> 2 * group & 3;
  return HalfToFloat(d) * static_cast<float>((low | high << 4) - kScaleLevels);
}

void EncodeIq4XsRef(Values values, Values importance, std::span<std::byte> out) {
  EncodeBlocks<BlockIq4Xs>(values, importance, out, EncodeBlock);
}

void DecodeIq4XsRef(std::span<const std::byte> blocks, std::span<float> out) {
  DecodeBlocks<BlockIq4Xs>(blocks, out, DecodeBlock);
}

}  // namespace quant
