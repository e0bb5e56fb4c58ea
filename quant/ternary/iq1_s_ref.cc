#include <array>
#include <cmath>

#include "quant/blocks.h"
#include "quant/half.h"
#include "quant/ternary/iq1_s.h"

namespace quant {
namespace {

constexpr size_t kIq1SCount = BlockIq1S::kGroupValues;
constexpr Iq1Shifts kAllDown = 15;

// The sums of w * x and w over the first n values in ascending order, by n.
struct RunningSums {
  std::array<float, kIq1SCount + 1> x{}, w{};
};

// The sums of w * value * x and w * value^2 for the three parts of a split. ggml adds the parts
// up in this order.
void TrySplit(const RunningSums& sums, size_t low, size_t high, Iq1Shifts shifts, Iq1Split& best) {
  const Iq1Values& v = Iq1ValuesOf(shifts, 0);
  const float x0 = sums.x[low], x1 = sums.x[high] - x0, x2 = sums.x[kIq1SCount] - sums.x[high];
  const float w0 = sums.w[low], w1 = sums.w[high] - w0, w2 = sums.w[kIq1SCount] - sums.w[high];
  const float qx = x0 * v[0] + x1 * v[1] + x2 * v[2];
  const float qq = w0 * v[0] * v[0] + w1 * v[1] * v[1] + w2 * v[2] * v[2];
  best.Try(qx, qq, low, high, shifts);
}

Iq1Group FitGroupIq1S(const WeightedGroup& group) {
  if (std::abs(LargestByMagnitude(group.values)) < kIq1SZeroGroup) return {};
  const Iq1Order order = Iq1OrderOf(group.values);
  RunningSums sums;
  for (size_t j = 0; j < kIq1SCount; ++j) {
    const size_t i = order[j];
    sums.x[j + 1] = sums.x[j] + group.weights[i] * group.values[i];
    sums.w[j + 1] = sums.w[j] + group.weights[i];
  }
  Iq1Split best;
  for (size_t low = 0; low <= kIq1SCount; ++low) {
    for (size_t high = low; high <= kIq1SCount; ++high) {
      TrySplit(sums, low, high, 0, best);
      TrySplit(sums, low, high, kAllDown, best);
    }
  }
  return best.found ? MakeIq1Group(group, order, best) : Iq1Group{};
}

BlockIq1S EncodeBlockIq1S(Values values, Values importance) {
  static constexpr std::array<float, kIq1SCount> kOnes = [] {
    std::array<float, kIq1SCount> ones{};
    for (float& one : ones) one = 1;
    return ones;
  }();
  const float spread = 2 * SumOfSquares(values) / static_cast<float>(kSuperBlock);
  std::array<Iq1Group, BlockIq1S::kGroups> groups;
  for (size_t j = 0; j < groups.size(); ++j) {
    const Values part = GroupOf<kIq1SCount>(values, j);
    std::array<float, kIq1SCount> weights;
    WeighByImportance(part, importance.empty() ? Values(kOnes) : GroupOf<kIq1SCount>(importance, j),
                      spread, weights);
    groups[j] = FitGroupIq1S({part, weights});
  }
  return PackIq1S(groups);
}

void DecodeBlockIq1S(const BlockIq1S& block, std::span<float> out) {
  const float d = HalfToFloat(block.d);
  for (size_t run = 0; run < kSuperBlock / kIq1Run; ++run) {
    const size_t group = run * kIq1Run / kIq1SCount;
    DecodeIq1Run(block.Number(run), block.Down(group), d * block.Scale(group),
                 out.data() + run * kIq1Run);
  }
}

}  // namespace

// Without any scale, d stays 0. 1.125 is ggml's and was found by trial.
BlockIq1S PackIq1S(const std::array<Iq1Group, BlockIq1S::kGroups>& groups) {
  BlockIq1S block{};
  std::array<float, BlockIq1S::kGroups> scales;
  for (size_t j = 0; j < groups.size(); ++j) {
    scales[j] = groups[j].scale;
    for (size_t k = 0; k < 4; ++k) {
      const unsigned number = groups[j].numbers[k];
      block.qs[4 * j + k] = static_cast<uint8_t>(number & 255);
      block.qh[j] = static_cast<uint16_t>(block.qh[j] | number >> 8 << 3 * k);
    }
  }
  const float largest = LargestIq1Scale(scales);
  if (largest == 0) return block;
  const float d = largest / 15;
  block.d = ScaleToHalf(d * 1.125f);
  for (size_t j = 0; j < groups.size(); ++j) {
    const int level = Iq1ScaleLevel(scales[j], 1 / d) | (groups[j].shifts != 0 ? 8 : 0);
    block.qh[j] = static_cast<uint16_t>(block.qh[j] | level << 12);
  }
  return block;
}

void EncodeIq1SRef(Values values, Values importance, std::span<std::byte> out) {
  EncodeBlocks<BlockIq1S>(values, importance, out, EncodeBlockIq1S);
}

void DecodeIq1SRef(std::span<const std::byte> blocks, std::span<float> out) {
  DecodeBlocks<BlockIq1S>(blocks, out, DecodeBlockIq1S);
}

}  // namespace quant
