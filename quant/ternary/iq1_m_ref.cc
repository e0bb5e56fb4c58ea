#include <array>
#include <cmath>

#include "quant/blocks.h"
#include "quant/half.h"
#include "quant/ternary/iq1_m.h"

namespace quant {
namespace {

constexpr size_t kIq1MCount = BlockIq1M::kGroupValues;

// The sums of w * x and w over the values of one run among the first n of the group in ascending
// order, by n.
struct RunSums {
  std::array<float, kIq1MCount + 1> x{}, w{};
};

// The sums of w * value * x and w * value^2 over a run. Neighbouring levels are 1 apart, so a value
// that is not on level 2 subtracts w * x, or twice that, from the sum with all on level 2. Source:
// the loop of quantize_row_iq1_m_impl in llama.cpp v0.5.0, whose order of operations this is.
LevelFit SplitRun(const RunSums& sums, const Iq1Values& v, size_t low, size_t high) {
  const float level0 = v[0] * v[0] - v[1] * v[1], level1 = v[1] * v[1] - v[2] * v[2];
  const float all = sums.w[kIq1MCount] * v[2] * v[2];
  return {.xl = sums.x[kIq1MCount] * v[2] - (sums.x[high] + sums.x[low]),
          .ll = level1 * sums.w[high] + (level0 * sums.w[low] + all)};
}

Iq1Group FitGroupIq1M(const WeightedGroup& group) {
  if (std::abs(LargestByMagnitude(group.values)) < kIq1MZeroGroup) return {};
  const Iq1Order order = Iq1OrderOf(group.values);
  std::array<RunSums, 2> sums;
  for (size_t j = 0; j < kIq1MCount; ++j) {
    const size_t i = order[j];
    for (size_t run = 0; run < sums.size(); ++run) {
      const bool mine = i / kIq1Run == run;
      sums[run].x[j + 1] = sums[run].x[j] + (mine ? group.weights[i] * group.values[i] : 0.0f);
      sums[run].w[j + 1] = sums[run].w[j] + (mine ? group.weights[i] : 0.0f);
    }
  }
  Iq1Split best;
  for (size_t low = 0; low <= kIq1MCount; ++low) {
    for (size_t high = low; high <= kIq1MCount; ++high) {
      for (const Iq1Shifts shifts : kIq1MShifts) {
        const LevelFit first = SplitRun(sums[0], Iq1ValuesOf(shifts, 0), low, high);
        const LevelFit second = SplitRun(sums[1], Iq1ValuesOf(shifts, 1), low, high);
        best.Try(first.xl + second.xl, first.ll + second.ll, low, high, shifts);
      }
    }
  }
  return best.found ? MakeIq1Group(group, order, best) : Iq1Group{};
}

// The block scale that best fits what the groups store; `d` if there is none. Groups without a
// scale store point 0 and count, too.
float FitBlock(const std::array<Iq1Group, BlockIq1M::kGroups>& groups, const BlockIq1M& block,
               Values values, Values weights, float d) {
  float qx = 0, qq = 0;
  for (size_t i = 0; i < kSuperBlock; ++i) {
    const size_t run = i / kIq1Run;
    const uint16_t point = Iq1Grid().points()[block.Number(run)];
    const Iq1Values& stands_for = Iq1ValuesOf(groups[run / 2].shifts, run % 2);
    const float q = stands_for[Grid8::LevelOf(point, i % kIq1Run)] * block.Scale(run / 2);
    qx += weights[i] * q * values[i];
    qq += weights[i] * q * q;
  }
  return qq > 0 ? qx / qq : d;
}

BlockIq1M EncodeBlockIq1M(Values values, Values importance) {
  std::array<float, kSuperBlock> weights;
  if (importance.empty()) {
    for (size_t i = 0; i < kSuperBlock; ++i) weights[i] = values[i] * values[i];
  } else {
    WeighByImportance(values, importance,
                      2 * SumOfSquares(values) / static_cast<float>(kSuperBlock), weights);
  }
  std::array<Iq1Group, BlockIq1M::kGroups> groups;
  for (size_t j = 0; j < groups.size(); ++j) {
    groups[j] = FitGroupIq1M({GroupOf<kIq1MCount>(values, j), GroupOf<kIq1MCount>(weights, j)});
  }
  BlockIq1M block{};
  const float d = PlaceIq1M(groups, block);
  if (d != 0) SetIq1MScale(FitBlock(groups, block, values, weights, d), block);
  return block;
}

void DecodeBlockIq1M(const BlockIq1M& block, std::span<float> out) {
  const float d = HalfToFloat(block.d());
  for (size_t run = 0; run < kSuperBlock / kIq1Run; ++run) {
    DecodeIq1Run(block.Number(run), block.Down(run), d * block.Scale(run / 2),
                 out.data() + run * kIq1Run);
  }
}

}  // namespace

float PlaceIq1M(const std::array<Iq1Group, BlockIq1M::kGroups>& groups, BlockIq1M& block) {
  std::array<float, BlockIq1M::kGroups> scales;
  for (size_t j = 0; j < groups.size(); ++j) {
    scales[j] = groups[j].scale;
    const unsigned first = groups[j].numbers[0], second = groups[j].numbers[1];
    block.qs[2 * j] = static_cast<uint8_t>(first & 255);
    block.qs[2 * j + 1] = static_cast<uint8_t>(second & 255);
    block.qh[j] = static_cast<uint8_t>(first >> 8 | second >> 8 << 4);
  }
  const float largest = LargestIq1Scale(scales);
  if (largest == 0) return 0;
  const float d = largest / 15;
  for (size_t j = 0; j < groups.size(); ++j) {
    const int level = Iq1ScaleLevel(scales[j], 1 / d);
    block.scales[j / 4] = static_cast<uint16_t>(block.scales[j / 4] | level << 3 * (j % 4));
    const unsigned shifts = (groups[j].shifts & 1) << 3 | (groups[j].shifts & 2) << 6;
    block.qh[j] = static_cast<uint8_t>(block.qh[j] | shifts);
  }
  return d;
}

// 1.1125 is ggml's and was found by trial.
void SetIq1MScale(float d, BlockIq1M& block) {
  const unsigned half = ScaleToHalf(d * 1.1125f);
  for (unsigned k = 0; k < 4; ++k) {
    block.scales[k] = static_cast<uint16_t>(block.scales[k] | (half >> 4 * k & 15) << 12);
  }
}

void EncodeIq1MRef(Values values, Values importance, std::span<std::byte> out) {
  EncodeBlocks<BlockIq1M>(values, importance, out, EncodeBlockIq1M);
}

void DecodeIq1MRef(std::span<const std::byte> blocks, std::span<float> out) {
  DecodeBlocks<BlockIq1M>(blocks, out, DecodeBlockIq1M);
}

}  // namespace quant
