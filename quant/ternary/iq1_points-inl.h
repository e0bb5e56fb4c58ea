// Turns the splits of a group into what is stored (MakeIq1Group of iq1.h), with one block in each
// lane. Only the points are looked up lane by lane.
#if defined(QUANT_IQ1_POINTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_IQ1_POINTS_INL_H_
#undef QUANT_IQ1_POINTS_INL_H_
#else
#define QUANT_IQ1_POINTS_INL_H_
#endif

#include <limits>

#include "quant/lanes-inl.h"
#include "quant/ternary/iq1.h"
#include "quant/ternary/iq1_split-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

// The nearest of the points around eight values of iq1_s and iq1_m, with a point in each lane.

#if HWY_TARGET != HWY_SCALAR
// The errors of a run by value and level: errors[4 * i + level]; the fourth is not used.
HWY_INLINE void ErrorsByLevel(const float* x, const float* w, float scale, const Iq1Values& v,
                              float* errors) {
  const hn::CappedTag<float, kIq1Run> d;
  for (size_t i = 0; i < kIq1Run; i += hn::Lanes(d)) {
    const auto xi = hn::Load(d, x + i), wi = hn::Load(d, w + i);
    const auto error = [&](size_t level) {
      const auto difference = hn::Sub(hn::Set(d, scale * v[level]), xi);
      return hn::Mul(hn::Mul(wi, difference), difference);
    };
    hn::StoreInterleaved4(error(0), error(1), error(2), hn::Zero(d), d, errors + 4 * i);
  }
}

// NearestIq1Neighbour of iq1.h, with a neighbour in each lane. `neighbours` has room up to a
// multiple of the lanes, where the last one is repeated.
HWY_INLINE uint16_t NearestIq1NeighbourOf(std::span<const uint16_t> neighbours,
                                          const float* errors) {
  const hn::CappedTag<float, Grid8::kNeighbourStep> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<uint16_t, decltype(d)> shorts;
  const auto mask = hn::Set(di, 3);
  const auto largest = hn::Set(d, std::numeric_limits<float>::max());
  auto least = largest;
  auto at = hn::Zero(di);
  for (size_t n = 0; n < neighbours.size(); n += hn::Lanes(d)) {
    auto points = hn::PromoteTo(di, hn::LoadU(shorts, neighbours.data() + n));
    auto sum = hn::Zero(d);
    for (size_t i = 0; i < kIq1Run; ++i) {
      const auto of_level = hn::LoadDup128(d, errors + 4 * i);
      sum = hn::Add(sum,
                    hn::TableLookupLanes(of_level, hn::IndicesFromVec(d, hn::And(points, mask))));
      points = hn::ShiftRight<2>(points);
    }
    const auto less = hn::Lt(sum, least);
    least = hn::IfThenElse(less, sum, least);
    at = hn::IfThenElse(hn::RebindMask(di, less), hn::Set(di, static_cast<int32_t>(n)), at);
  }
  const auto all_least = hn::MinOfLanes(d, least);
  if (hn::GetLane(all_least) == std::numeric_limits<float>::max()) return neighbours.front();
  const auto equal = hn::Eq(least, all_least);
  const auto place = hn::Add(at, hn::Iota(di, 0));
  const auto none = hn::Set(di, std::numeric_limits<int32_t>::max());
  const auto first = hn::MinOfLanes(di, hn::IfThenElse(hn::RebindMask(di, equal), place, none));
  return neighbours[static_cast<size_t>(hn::GetLane(first))];
}
#endif

// Vectors of eight need vectors.
#if HWY_TARGET != HWY_SCALAR

// Looks up the points of one lane.
template <size_t kRuns>
HWY_INLINE void PointsOfLane(const Grid8& grid, const float* x, const float* w, size_t lane,
                             Iq1Groups<kRuns>& out) {
  out.moved[lane] = 0;
  for (size_t run = 0; run < kRuns; ++run) {
    const auto cell = static_cast<size_t>(out.cells[run * LaneCount() + lane]);
    int32_t& point = out.points[run * LaneCount() + lane];
    const int number = grid.PointIn(cell);
    if (number >= 0) {
      point = grid.points()[static_cast<size_t>(number)];
      continue;
    }
    out.moved[lane] = 1;
    HWY_ALIGN float xs[kIq1Run], ws[kIq1Run], errors[4 * kIq1Run];
    for (size_t i = 0; i < kIq1Run; ++i) {
      xs[i] = x[(run * kIq1Run + i) * LaneCount() + lane];
      ws[i] = w[(run * kIq1Run + i) * LaneCount() + lane];
    }
    const auto shifts = static_cast<Iq1Shifts>(out.shifts[lane]);
    ErrorsByLevel(xs, ws, out.scale[lane], Iq1ValuesOf(shifts, run), errors);
    point = NearestIq1NeighbourOf(grid.NeighboursOf(cell), errors);
  }
}

// What a level of a run stands for minus the level: -7/8 or -9/8.
template <size_t kRuns>
HWY_INLINE V Iq1BaseOf(const Iq1Groups<kRuns>& groups, size_t run) {
  const DI di;
  const VI bit = hn::Set(di, 1 << run);
  const auto down = hn::Eq(hn::And(hn::Load(di, groups.shifts), bit), bit);
  return hn::IfThenElse(hn::RebindMask(D(), down), Splat(-1.125f), Splat(-0.875f));
}

// Adds w * q * x and w * q * q over the values of a group to the sums; q is `factor` times the
// value of its point.
template <size_t kRuns>
HWY_INLINE void AddIq1Points(const Iq1Groups<kRuns>& groups, const float* x, const float* w,
                             V factor, V& qx, V& qq) {
  const D d;
  const DI di;
  for (size_t run = 0; run < kRuns; ++run) {
    const V base = Iq1BaseOf(groups, run);
    VI points = hn::Load(di, groups.points + run * LaneCount());
    for (size_t i = 0; i < kIq1Run; ++i) {
      const size_t at = (run * kIq1Run + i) * LaneCount();
      const V level = hn::ConvertTo(d, hn::And(points, hn::Set(di, 3)));
      const V q = hn::Mul(hn::Add(level, base), factor);
      const V weighted = hn::Mul(hn::Load(d, w + at), q);
      qx = hn::Add(qx, hn::Mul(weighted, hn::Load(d, x + at)));
      qq = hn::Add(qq, hn::Mul(weighted, q));
      points = hn::ShiftRight<2>(points);
    }
  }
}

// Makes the groups of `count` lanes; those in which nothing was found stay as Iq1Group starts.
template <size_t kRuns>
HWY_INLINE void MakeIq1Groups(const int32_t* rank, const float* x, const float* w,
                              const Iq1Splits& best, size_t count, Iq1Groups<kRuns>& out) {
  const D d;
  const V zero = hn::Zero(d);
  const Grid8& grid = Iq1Grid();
  CellsOfSplits(rank, best, out);
  for (size_t run = 0; run < kRuns; ++run) {
    hn::Store(hn::Set(DI(), grid.points()[0]), DI(), out.points + run * LaneCount());
  }
  hn::Store(zero, d, out.moved);
  for (size_t lane = 0; lane < count; ++lane) {
    if (out.found[lane]) PointsOfLane(grid, x, w, lane, out);
  }
  V qx = zero, qq = zero;
  AddIq1Points(out, x, w, Splat(1.0f), qx, qq);
  const M moved = hn::Gt(hn::Load(d, out.moved), zero);
  const M fits = hn::And(moved, hn::And(hn::Gt(qx, zero), hn::Gt(qq, zero)));
  const V scale = hn::IfThenElse(fits, hn::Div(qx, qq), hn::Load(d, out.scale));
  hn::Store(hn::IfThenElseZero(best.found, scale), d, out.scale);
  const auto found = hn::RebindMask(DI(), best.found);
  hn::Store(hn::IfThenElseZero(found, hn::Load(DI(), out.shifts)), DI(), out.shifts);
}

// The group of one lane.
template <size_t kRuns>
HWY_INLINE Iq1Group Iq1GroupOf(const Iq1Groups<kRuns>& groups, size_t lane) {
  Iq1Group group{.scale = groups.scale[lane],
                 .shifts = static_cast<Iq1Shifts>(groups.shifts[lane])};
  for (size_t run = 0; run < kRuns; ++run) {
    const auto point = static_cast<uint16_t>(groups.points[run * LaneCount() + lane]);
    const size_t cell = Grid8::CellOf(Grid8::LevelsOf(point));
    group.numbers[run] = static_cast<uint16_t>(Iq1Grid().PointIn(cell));
  }
  return group;
}

#endif

// Decodes the points of iq1_s and iq1_m, with the values of one point in the lanes.

#if HWY_TARGET != HWY_SCALAR
// DecodeIq1Run of iq1.h. The sum of a level and an eighth is exact.
HWY_INLINE void DecodeIq1RunOf(const Iq1Bytes& point, bool down, float scale, float* out) {
  const hn::CappedTag<float, kIq1Run> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<int8_t, decltype(d)> bytes;
  const auto shift = hn::Set(d, down ? -0.125f : 0.125f), factor = hn::Set(d, scale);
  for (size_t i = 0; i < kIq1Run; i += hn::Lanes(d)) {
    const auto level = hn::PromoteTo(di, hn::LoadU(bytes, point.data() + i));
    hn::StoreU(hn::Mul(factor, hn::Add(hn::ConvertTo(d, level), shift)), d, out + i);
  }
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
