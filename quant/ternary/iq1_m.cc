#include "quant/ternary/iq1_m.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/ternary/iq1_m.cc"
#include <hwy/foreach_target.h>

#include <cstring>

#include "quant/half.h"
#include "quant/ternary/iq1_points-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
void EncodeIq1MLanes(Values values, Values importance, std::span<std::byte> out) {
  EncodeIq1MRef(values, importance, out);
}

void DecodeIq1MLanes(std::span<const std::byte> in, std::span<float> out) {
  DecodeIq1MRef(in, out);
}
#else
constexpr size_t kMCount = BlockIq1M::kGroupValues;
constexpr size_t kMRuns = kMCount / kIq1Run;

// The sums over the values of one run among the first n in ascending order, and what a split before
// value n subtracts, moved up and down.
struct RunSumsIq1M {
  HWY_ALIGN float x[(kMCount + 1) * kMaxLanes], w[(kMCount + 1) * kMaxLanes];
  HWY_ALIGN float level1[2][(kMCount + 1) * kMaxLanes];
};

// The differences of the squares of neighbouring levels are exact.
HWY_INLINE V SquareStep(size_t down, size_t level) {
  const Iq1Values& v = kIq1Values[down];
  return Splat(v[level] * v[level] - v[level + 1] * v[level + 1]);
}

void SumRunIq1M(const float* x, const float* w, const int32_t* rank, size_t run,
                RunSumsIq1M& sums) {
  const D d;
  for (size_t n = 0; n <= kMCount; ++n) {
    hn::Store(hn::Zero(d), d, sums.x + n * LaneCount());
    hn::Store(hn::Zero(d), d, sums.w + n * LaneCount());
  }
  for (size_t i = run * kIq1Run; i < (run + 1) * kIq1Run; ++i) {
    const size_t at = i * LaneCount();
    const V wi = hn::Load(d, w + at);
    PlaceByRank(rank + at, hn::Mul(wi, hn::Load(d, x + at)), sums.x);
    PlaceByRank(rank + at, wi, sums.w);
  }
  AddUpRows<kMCount>(sums.x);
  AddUpRows<kMCount>(sums.w);
  for (size_t at = 0; at <= kMCount * LaneCount(); at += LaneCount()) {
    for (size_t down = 0; down < 2; ++down) {
      hn::Store(hn::Mul(SquareStep(down, 1), hn::Load(d, sums.w + at)), d, sums.level1[down] + at);
    }
  }
}

// One run for one split, moved up [0] and down [1].
struct RunFit {
  V qx[2], qq[2];
};

// The part that does not depend on the upper end of a split.
struct RunStart {
  V x, all_x[2], qq[2];
};

HWY_INLINE RunStart StartRun(const RunSumsIq1M& sums, size_t low) {
  const D d;
  RunStart start;
  start.x = hn::Load(d, sums.x + low * LaneCount());
  const V w = hn::Load(d, sums.w + low * LaneCount());
  for (size_t down = 0; down < 2; ++down) {
    const V top = Splat(kIq1Values[down][2]);
    const V all_w = hn::Load(d, sums.w + kMCount * LaneCount());
    const V all = hn::Mul(hn::Mul(all_w, top), top);
    start.all_x[down] = hn::Mul(hn::Load(d, sums.x + kMCount * LaneCount()), top);
    start.qq[down] = hn::Add(hn::Mul(SquareStep(down, 0), w), all);
  }
  return start;
}

HWY_INLINE RunFit FitRun(const RunSumsIq1M& sums, const RunStart& start, size_t high) {
  const D d;
  const size_t at = high * LaneCount();
  const V off = hn::Add(hn::Load(d, sums.x + at), start.x);
  RunFit fit;
  for (size_t down = 0; down < 2; ++down) {
    fit.qx[down] = hn::Sub(start.all_x[down], off);
    fit.qq[down] = hn::Add(hn::Load(d, sums.level1[down] + at), start.qq[down]);
  }
  return fit;
}

HWY_INLINE void TryRuns(const RunFit& a, const RunFit& b, size_t low, size_t high,
                        Iq1Splits& best) {
  const D d;
  V qx[4], qq[4];
  M any = hn::Lt(hn::Zero(d), hn::Zero(d));
  for (size_t k = 0; k < kIq1MShifts.size(); ++k) {
    const size_t first = kIq1MShifts[k] & 1, second = kIq1MShifts[k] >> 1;
    qx[k] = hn::Add(a.qx[first], b.qx[second]);
    qq[k] = hn::Add(a.qq[first], b.qq[second]);
    any = hn::Or(any, BetterIq1Split(best, qx[k], qq[k]));
  }
  if (hn::AllFalse(d, any)) return;
  for (size_t k = 0; k < kIq1MShifts.size(); ++k) {
    TryIq1Split(qx[k], qq[k], low, high, kIq1MShifts[k], best);
  }
}

void FitGroupsIq1M(const float* x, const float* w, size_t count, Iq1Groups<kMRuns>& out) {
  HWY_ALIGN int32_t rank[kMCount * kMaxLanes];
  const D d;
  RankIq1Values<kMCount>(x, rank);
  RunSumsIq1M first, second;
  SumRunIq1M(x, w, rank, 0, first);
  SumRunIq1M(x, w, rank, 1, second);
  Iq1Splits best = NoIq1Splits();
  for (size_t low = 0; low <= kMCount; ++low) {
    const RunStart a = StartRun(first, low), b = StartRun(second, low);
    for (size_t high = low; high <= kMCount; ++high) {
      TryRuns(FitRun(first, a, high), FitRun(second, b, high), low, high, best);
    }
  }
  V largest = hn::Zero(d);
  for (size_t i = 0; i < kMCount; ++i) {
    largest = hn::Max(largest, hn::Abs(hn::Load(d, x + i * LaneCount())));
  }
  best.found = hn::And(best.found, hn::Ge(largest, Splat(kIq1MZeroGroup)));
  MakeIq1Groups(rank, x, w, best, count, out);
}

struct WeightedIq1M {
  HWY_ALIGN float x[kSuperBlock * kMaxLanes], w[kSuperBlock * kMaxLanes];
  bool finite[kMaxLanes];
};

void WeighLanesIq1M(const LaneBlocks& blocks, WeightedIq1M& out) {
  LoadTransposed(blocks.value, 0, kSuperBlock, out.x);
  const V spread = hn::Div(hn::Mul(Splat(2.0f), SumOfSquares<kSuperBlock>(out.x)),
                           Splat(static_cast<float>(kSuperBlock)));
  StoreMask(hn::Lt(spread, Splat(std::numeric_limits<float>::infinity())), out.finite);
  if (blocks.weighted()) {
    LoadTransposed(blocks.weight, 0, kSuperBlock, out.w);
    WeighByImportance<kSuperBlock>(out.x, spread, out.w);
  } else {
    WeighBySquare<kSuperBlock>(out.x, out.w);
  }
}

using GroupsIq1M = std::array<Iq1Groups<kMRuns>, BlockIq1M::kGroups>;

// The scales of the blocks, fitted to the rounded scales of their groups.
HWY_INLINE void FitBlocks(const WeightedIq1M& lanes, const GroupsIq1M& groups,
                          const BlockIq1M* blocks, size_t count, float* d) {
  HWY_ALIGN float factors[kMaxLanes] = {};
  V qx = hn::Zero(D()), qq = qx;
  for (size_t j = 0; j < groups.size(); ++j) {
    for (size_t lane = 0; lane < count; ++lane) factors[lane] = blocks[lane].Scale(j);
    const size_t at = j * kMCount * LaneCount();
    AddIq1Points(groups[j], lanes.x + at, lanes.w + at, hn::Load(D(), factors), qx, qq);
  }
  const M fits = hn::Gt(qq, hn::Zero(D()));
  hn::Store(hn::IfThenElse(fits, hn::Div(qx, qq), hn::Load(D(), d)), D(), d);
}

void EncodeLanesIq1M(const LaneBlocks& blocks, std::span<BlockIq1M> out) {
  WeightedIq1M lanes;
  WeighLanesIq1M(blocks, lanes);
  GroupsIq1M groups;
  for (size_t j = 0; j < groups.size(); ++j) {
    const size_t at = j * kMCount * LaneCount();
    FitGroupsIq1M(lanes.x + at, lanes.w + at, blocks.count, groups[j]);
  }
  HWY_ALIGN float d[kMaxLanes] = {};
  bool without_scale[kMaxLanes];
  for (size_t lane = 0; lane < blocks.count; ++lane) {
    std::array<Iq1Group, BlockIq1M::kGroups> of_lane;
    for (size_t j = 0; j < groups.size(); ++j) of_lane[j] = Iq1GroupOf(groups[j], lane);
    out[lane] = BlockIq1M{};
    d[lane] = PlaceIq1M(of_lane, out[lane]);
    without_scale[lane] = d[lane] == 0;
  }
  FitBlocks(lanes, groups, out.data(), blocks.count, d);
  for (size_t lane = 0; lane < blocks.count; ++lane) {
    if (!lanes.finite[lane]) {
      EncodeByReference(blocks, lane, EncodeIq1MRef, out[lane]);
    } else if (!without_scale[lane]) {
      SetIq1MScale(d[lane], out[lane]);
    }
  }
}

void EncodeIq1MLanes(Values values, Values importance, std::span<std::byte> out) {
  if (!kHasVectors) return EncodeIq1MRef(values, importance, out);
  EncodeInLanes<BlockIq1M>({values, importance, out}, LaneCount(), EncodeLanesIq1M);
}

void DecodeIq1MLanes(std::span<const std::byte> in, std::span<float> out) {
  const std::span<const Iq1Bytes> points = Iq1PointBytes();
  for (size_t i = 0; i < in.size() / sizeof(BlockIq1M); ++i) {
    BlockIq1M block;
    std::memcpy(&block, in.data() + i * sizeof(block), sizeof(block));
    const float d = HalfToFloat(block.d());
    for (size_t run = 0; run < kSuperBlock / kIq1Run; ++run) {
      DecodeIq1RunOf(points[block.Number(run)], block.Down(run), d * block.Scale(run / kMRuns),
                     out.data() + i * kSuperBlock + run * kIq1Run);
    }
  }
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quant {

HWY_EXPORT(EncodeIq1MLanes);

void EncodeIq1M(Values values, Values importance, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(EncodeIq1MLanes)(values, importance, out);
}

HWY_EXPORT(DecodeIq1MLanes);

void DecodeIq1M(std::span<const std::byte> blocks, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(DecodeIq1MLanes)(blocks, out);
}

}  // namespace quant
#endif
