// The search for the best split of a group of iq1_s or iq1_m (Iq1Split of iq1.h), with one block in
// each lane: vector i holds value i of the group of every block.
#if defined(QUANT_IQ1_SPLIT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_IQ1_SPLIT_INL_H_
#undef QUANT_IQ1_SPLIT_INL_H_
#else
#define QUANT_IQ1_SPLIT_INL_H_
#endif

#include <limits>

#include "quant/search/weights-inl.h"
#include "quant/ternary/iq1.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

// rank[i] is the position of value i in Iq1OrderOf, for values that are not NaN: it starts at i,
// and each pair that is out of order moves both.
template <size_t kCount>
HWY_INLINE void RankIq1Values(const float* x, int32_t* rank) {
  const DI di;
  const VI one = hn::Set(di, 1);
  for (size_t i = 0; i < kCount; ++i) {
    hn::Store(hn::Set(di, static_cast<int32_t>(i)), di, rank + i * LaneCount());
  }
  for (size_t i = 0; i < kCount; ++i) {
    const V xi = hn::Load(D(), x + i * LaneCount());
    VI mine = hn::Load(di, rank + i * LaneCount());
    for (size_t j = i + 1; j < kCount; ++j) {
      int32_t* const other = rank + j * LaneCount();
      const M swapped = hn::Gt(xi, hn::Load(D(), x + j * LaneCount()));
      const VI step = hn::IfThenElseZero(hn::RebindMask(di, swapped), one);
      mine = hn::Add(mine, step);
      hn::Store(hn::Sub(hn::Load(di, other), step), di, other);
    }
    hn::Store(mine, di, rank + i * LaneCount());
  }
}

// Puts each lane's `value` into the row of `sorted` given by the lane's rank, counted from row 1.
HWY_INLINE void PlaceByRank(const int32_t* rank, V value, float* sorted) {
  HWY_ALIGN float lanes[kMaxLanes];
  hn::Store(value, D(), lanes);
  const size_t count = LaneCount();
  for (size_t lane = 0; lane < count; ++lane) {
    sorted[(static_cast<size_t>(rank[lane]) + 1) * count + lane] = lanes[lane];
  }
}

// Row n becomes the sum of rows 0 ... n.
template <size_t kCount>
HWY_INLINE void AddUpRows(float* rows) {
  const D d;
  V sum = hn::Zero(d);
  hn::Store(sum, d, rows);
  for (size_t n = 1; n <= kCount; ++n) {
    sum = hn::Add(sum, hn::Load(d, rows + n * LaneCount()));
    hn::Store(sum, d, rows + n * LaneCount());
  }
}

// The best split of each lane, and whether there is one.
struct Iq1Splits {
  V scale, gain;
  VI low, high, shifts;
  M found;
};

HWY_INLINE Iq1Splits NoIq1Splits() {
  const DI di;
  const V none = hn::Zero(D());
  return {none,         Splat(std::numeric_limits<float>::lowest()),
          hn::Zero(di), hn::Zero(di),
          hn::Zero(di), hn::Lt(none, none)};
}

// The lanes in which Iq1Split::Try adopts the split.
HWY_INLINE M BetterIq1Split(const Iq1Splits& best, V qx, V qq) {
  return hn::And(hn::Gt(qq, hn::Zero(D())), hn::Gt(hn::Mul(qx, qx), hn::Mul(best.gain, qq)));
}

HWY_INLINE void TryIq1Split(V qx, V qq, size_t low, size_t high, Iq1Shifts shifts,
                            Iq1Splits& best) {
  const D d;
  const DI di;
  const M better = BetterIq1Split(best, qx, qq);
  if (hn::AllFalse(d, better)) return;
  const auto better_int = hn::RebindMask(di, better);
  const auto take = [&](VI old, size_t value) {
    return hn::IfThenElse(better_int, hn::Set(di, static_cast<int32_t>(value)), old);
  };
  const V scale = hn::Div(qx, qq);
  best.scale = hn::IfThenElse(better, scale, best.scale);
  best.gain = hn::IfThenElse(better, hn::Mul(scale, qx), best.gain);
  best.low = take(best.low, low);
  best.high = take(best.high, high);
  best.shifts = take(best.shifts, shifts);
  best.found = hn::Or(best.found, better);
}

// The groups of all lanes, with their points packed as in points.h.
template <size_t kRuns>
struct Iq1Groups {
  HWY_ALIGN float scale[kMaxLanes];
  HWY_ALIGN int32_t shifts[kMaxLanes];
  HWY_ALIGN int32_t points[kRuns * kMaxLanes];
  HWY_ALIGN int32_t cells[kRuns * kMaxLanes];
  HWY_ALIGN float moved[kMaxLanes];  // 1 where levels were not a point
  bool found[kMaxLanes];
};

// Finds the cells of the levels; a negative scale flips them and the shifts.
template <size_t kRuns>
HWY_INLINE void CellsOfSplits(const int32_t* rank, const Iq1Splits& best, Iq1Groups<kRuns>& out) {
  const D d;
  const DI di;
  const M turned = hn::Lt(best.scale, hn::Zero(d));
  const auto turned_int = hn::RebindMask(di, turned);
  const VI one = hn::Set(di, 1), two = hn::Set(di, 2);
  hn::Store(hn::IfThenElse(turned, hn::Neg(best.scale), best.scale), d, out.scale);
  const VI all = hn::Set(di, (1 << kRuns) - 1);
  hn::Store(hn::IfThenElse(turned_int, hn::Xor(best.shifts, all), best.shifts), di, out.shifts);
  for (size_t run = 0; run < kRuns; ++run) {
    VI cell = hn::Zero(di);
    for (size_t i = kIq1Run; i-- > 0;) {
      const VI place = hn::Load(di, rank + (run * kIq1Run + i) * LaneCount());
      VI level = hn::IfThenElse(hn::Lt(place, best.high), one, two);
      level = hn::IfThenZeroElse(hn::Lt(place, best.low), level);
      level = hn::IfThenElse(turned_int, hn::Sub(two, level), level);
      cell = hn::Add(hn::Add(hn::Add(cell, cell), cell), level);
    }
    hn::Store(cell, di, out.cells + run * LaneCount());
  }
  StoreMask(best.found, out.found);
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
