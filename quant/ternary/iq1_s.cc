#include "quant/ternary/iq1_s.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/ternary/iq1_s.cc"
#include <hwy/foreach_target.h>

#include <cstring>

#include "quant/half.h"
#include "quant/ternary/iq1_points-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
void EncodeIq1SLanes(Values values, Values importance, std::span<std::byte> out) {
  EncodeIq1SRef(values, importance, out);
}

void DecodeIq1SLanes(std::span<const std::byte> in, std::span<float> out) {
  DecodeIq1SRef(in, out);
}
#else
constexpr size_t kSCount = BlockIq1S::kGroupValues;
constexpr size_t kSRuns = kSCount / kIq1Run;
constexpr Iq1Shifts kSDown = (1u << kSRuns) - 1;

// The sums over the first n values in ascending order, and the terms of the values after them: what
// level 2 adds to the sums of w * value * x and w * value^2, moved up and down.
struct SumsIq1S {
  HWY_ALIGN float x[(kSCount + 1) * kMaxLanes], w[(kSCount + 1) * kMaxLanes];
  HWY_ALIGN float qx[2][(kSCount + 1) * kMaxLanes], qq[2][(kSCount + 1) * kMaxLanes];
};

void SumSortedIq1S(const float* x, const float* w, const int32_t* rank, SumsIq1S& sums) {
  const D d;
  for (size_t i = 0; i < kSCount; ++i) {
    const size_t at = i * LaneCount();
    const V wi = hn::Load(d, w + at);
    PlaceByRank(rank + at, hn::Mul(wi, hn::Load(d, x + at)), sums.x);
    PlaceByRank(rank + at, wi, sums.w);
  }
  AddUpRows<kSCount>(sums.x);
  AddUpRows<kSCount>(sums.w);
  const V all_x = hn::Load(d, sums.x + kSCount * LaneCount());
  const V all_w = hn::Load(d, sums.w + kSCount * LaneCount());
  for (size_t at = 0; at <= kSCount * LaneCount(); at += LaneCount()) {
    const V rest_x = hn::Sub(all_x, hn::Load(d, sums.x + at));
    const V rest_w = hn::Sub(all_w, hn::Load(d, sums.w + at));
    for (size_t down = 0; down < 2; ++down) {
      const V top = Splat(kIq1Values[down][2]);
      hn::Store(hn::Mul(rest_x, top), d, sums.qx[down] + at);
      hn::Store(hn::Mul(hn::Mul(rest_w, top), top), d, sums.qq[down] + at);
    }
  }
}

// Level 1 stands for 1/8 or -1/8: one product serves both directions, because flipping a sign is
// exact.
HWY_INLINE void TryHighs(const SumsIq1S& sums, size_t low, Iq1Splits& best) {
  const D d;
  const V eighth = Splat(0.125f);
  const V x0 = hn::Load(d, sums.x + low * LaneCount());
  const V w0 = hn::Load(d, sums.w + low * LaneCount());
  const V bottom_up = Splat(kIq1Values[0][0]), bottom_down = Splat(kIq1Values[1][0]);
  const V x_up = hn::Mul(x0, bottom_up), x_down = hn::Mul(x0, bottom_down);
  const V w_up = hn::Mul(hn::Mul(w0, bottom_up), bottom_up);
  const V w_down = hn::Mul(hn::Mul(w0, bottom_down), bottom_down);
  for (size_t high = low; high <= kSCount; ++high) {
    const size_t at = high * LaneCount();
    const V x1 = hn::Mul(hn::Sub(hn::Load(d, sums.x + at), x0), eighth);
    const V w1 = hn::Mul(hn::Mul(hn::Sub(hn::Load(d, sums.w + at), w0), eighth), eighth);
    const V qx_up = hn::Add(hn::Add(x_up, x1), hn::Load(d, sums.qx[0] + at));
    const V qx_down = hn::Add(hn::Sub(x_down, x1), hn::Load(d, sums.qx[1] + at));
    const V qq_up = hn::Add(hn::Add(w_up, w1), hn::Load(d, sums.qq[0] + at));
    const V qq_down = hn::Add(hn::Add(w_down, w1), hn::Load(d, sums.qq[1] + at));
    const M any =
        hn::Or(BetterIq1Split(best, qx_up, qq_up), BetterIq1Split(best, qx_down, qq_down));
    if (hn::AllFalse(d, any)) continue;
    TryIq1Split(qx_up, qq_up, low, high, 0, best);
    TryIq1Split(qx_down, qq_down, low, high, kSDown, best);
  }
}

void FitGroupsIq1S(const LaneBlocks& blocks, size_t group, V spread, const float* x,
                   Iq1Groups<kSRuns>& out) {
  HWY_ALIGN float w[kSCount * kMaxLanes];
  HWY_ALIGN int32_t rank[kSCount * kMaxLanes];
  const D d;
  if (blocks.weighted()) {
    LoadTransposed(blocks.weight, group * kSCount, kSCount, w);
  } else {
    for (size_t i = 0; i < kSCount; ++i) hn::Store(Splat(1.0f), d, w + i * LaneCount());
  }
  WeighByImportance<kSCount>(x, spread, w);
  RankIq1Values<kSCount>(x, rank);
  SumsIq1S sums;
  SumSortedIq1S(x, w, rank, sums);
  Iq1Splits best = NoIq1Splits();
  for (size_t low = 0; low <= kSCount; ++low) TryHighs(sums, low, best);
  V largest = hn::Zero(d);
  for (size_t i = 0; i < kSCount; ++i) {
    largest = hn::Max(largest, hn::Abs(hn::Load(d, x + i * LaneCount())));
  }
  best.found = hn::And(best.found, hn::Ge(largest, Splat(kIq1SZeroGroup)));
  MakeIq1Groups(rank, x, w, best, blocks.count, out);
}

void EncodeLanesIq1S(const LaneBlocks& blocks, std::span<BlockIq1S> out) {
  HWY_ALIGN float x[kSuperBlock * kMaxLanes];
  LoadTransposed(blocks.value, 0, kSuperBlock, x);
  const V spread = hn::Div(hn::Mul(Splat(2.0f), SumOfSquares<kSuperBlock>(x)),
                           Splat(static_cast<float>(kSuperBlock)));
  bool finite[kMaxLanes];
  StoreMask(hn::Lt(spread, Splat(std::numeric_limits<float>::infinity())), finite);
  std::array<Iq1Groups<kSRuns>, BlockIq1S::kGroups> groups;
  for (size_t j = 0; j < groups.size(); ++j) {
    FitGroupsIq1S(blocks, j, spread, x + j * kSCount * LaneCount(), groups[j]);
  }
  for (size_t lane = 0; lane < blocks.count; ++lane) {
    if (!finite[lane]) {
      EncodeByReference(blocks, lane, EncodeIq1SRef, out[lane]);
      continue;
    }
    std::array<Iq1Group, BlockIq1S::kGroups> of_lane;
    for (size_t j = 0; j < groups.size(); ++j) of_lane[j] = Iq1GroupOf(groups[j], lane);
    out[lane] = PackIq1S(of_lane);
  }
}

void EncodeIq1SLanes(Values values, Values importance, std::span<std::byte> out) {
  if (!kHasVectors) return EncodeIq1SRef(values, importance, out);
  EncodeInLanes<BlockIq1S>({values, importance, out}, LaneCount(), EncodeLanesIq1S);
}

void DecodeIq1SLanes(std::span<const std::byte> in, std::span<float> out) {
  const std::span<const Iq1Bytes> points = Iq1PointBytes();
  for (size_t i = 0; i < in.size() / sizeof(BlockIq1S); ++i) {
    BlockIq1S block;
    std::memcpy(&block, in.data() + i * sizeof(block), sizeof(block));
    const float d = HalfToFloat(block.d);
    for (size_t j = 0; j < BlockIq1S::kGroups; ++j) {
      const float scale = d * block.Scale(j);
      float* const values = out.data() + i * kSuperBlock + j * kSCount;
      for (size_t run = 0; run < kSRuns; ++run) {
        DecodeIq1RunOf(points[block.Number(j * kSRuns + run)], block.Down(j), scale,
                       values + run * kIq1Run);
      }
    }
  }
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quant {

HWY_EXPORT(EncodeIq1SLanes);

void EncodeIq1S(Values values, Values importance, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(EncodeIq1SLanes)(values, importance, out);
}

HWY_EXPORT(DecodeIq1SLanes);

void DecodeIq1S(std::span<const std::byte> blocks, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(DecodeIq1SLanes)(blocks, out);
}

}  // namespace quant
#endif
