#include "quant/half.h"
#include "quant/search/k_search.h"
#include "quant/tables/iq4.h"
#include "quant/tables/iq4_xs.h"

namespace quant {
namespace {

constexpr size_t kGroups = BlockIq4Xs::kGroups;
constexpr size_t kGroupValues = kSuperBlock / kGroups;

FloatsIq4Xs FitGroups(Values values, Values importance) {
  const float spread = Iq4Spread(values);
  FloatsIq4Xs scales;
  for (size_t j = 0; j < kGroups; ++j) {
    const Values weights = importance.empty() ? importance : GroupOf<kGroupValues>(importance, j);
    scales[j] = FitIq4Scale(GroupOf<kGroupValues>(values, j), weights, spread);
  }
  return scales;
}

void SetScale(BlockIq4Xs& block, size_t group, int level) {
  const auto bits = static_cast<unsigned>(level + kIq4XsScaleLevels);
  block.scales_l[group / 2] |= static_cast<uint8_t>((bits & 15) << group % 2 * 4);
  block.scales_h |= static_cast<uint16_t>(bits >> 4 << 2 * group);
}

BlockIq4Xs EncodeBlock(Values values, Values importance) {
  BlockIq4Xs block{};
  const FloatsIq4Xs inverse = RoundScalesIq4Xs(FitGroups(values, importance), block);
  Levels q;
  for (size_t i = 0; i < kSuperBlock; ++i) {
    q[i] = NearestIq4Code(inverse[i / kGroupValues] * values[i]);
  }
  PackFourBits(q, kIq4XsDistance, block.qs);
  return block;
}

void DecodeBlock(const BlockIq4Xs& block, std::span<float> out) {
  for (size_t j = 0; j < kGroups; ++j) {
    const float scale = block.GroupScale(j);
    for (size_t i = kGroupValues * j; i < kGroupValues * (j + 1); ++i) {
      out[i] = scale * kIq4Codes[FourBitsOf(block.qs, kIq4XsDistance, i)];
    }
  }
}

}  // namespace

float BlockIq4Xs::GroupScale(size_t group) const {
  const int low = scales_l[group / 2] >> group % 2 * 4 & 15;
  const int high = scales_h >> 2 * group & 3;
  return HalfToFloat(d) * static_cast<float>((low | high << 4) - kIq4XsScaleLevels);
}

FloatsIq4Xs RoundScalesIq4Xs(const FloatsIq4Xs& scales, BlockIq4Xs& block) {
  // The levels reach one further below zero than above it, so the largest scale gets -32 and d
  // takes the opposite sign.
  const float d = -LargestByMagnitude(scales) / static_cast<float>(kIq4XsScaleLevels);
  const float inverse = d != 0 ? 1 / d : 0.0f;
  block.d = ScaleToHalf(d);
  FloatsIq4Xs inverses;
  for (size_t j = 0; j < kGroups; ++j) {
    const int level = NearestLevel(inverse * scales[j], -kIq4XsScaleLevels, kIq4XsScaleLevels - 1);
    SetScale(block, j, level);
    // As in ggml, the codes are chosen with d as it was before it was rounded to F16.
    const float scale = d * static_cast<float>(level);
    inverses[j] = scale != 0 ? 1 / scale : 0.0f;
  }
  return inverses;
}

void EncodeIq4XsRef(Values values, Values importance, std::span<std::byte> out) {
  EncodeBlocks<BlockIq4Xs>(values, importance, out, EncodeBlock);
}

void DecodeIq4XsRef(std::span<const std::byte> blocks, std::span<float> out) {
  DecodeBlocks<BlockIq4Xs>(blocks, out, DecodeBlock);
}

}  // namespace quant
