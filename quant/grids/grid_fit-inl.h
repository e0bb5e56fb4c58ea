// The search of GroupFitter (grid_block.cc) for one group of every lane. Levels, sums and choices
// run down the lanes; where levels are not a point of the grid, the lanes are handled one by one.
#if defined(QUANT_GRID_FIT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_GRID_FIT_INL_H_
#undef QUANT_GRID_FIT_INL_H_
#else
#define QUANT_GRID_FIT_INL_H_
#endif

#include "quant/grids/grid_block.h"
#include "quant/grids/grid_neighbours-inl.h"
#include "quant/lanes-inl.h"
#include "quant/search/search_positive-inl.h"
#include "quant/search/weights-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

// Magnitudes, signs and weights of one group of every lane (MagnitudeGroup of grid_block.cc).

// Value i of lane l is at [i * LaneCount() + l], as in all buffers of lanes.
struct LaneGroup {
  HWY_ALIGN float magnitudes[kMaxGridGroup * kMaxLanes];
  HWY_ALIGN float weights[kMaxGridGroup * kMaxLanes];
  HWY_ALIGN float roots[kMaxGridGroup * kMaxLanes];
  HWY_ALIGN int32_t signs[kMaxGridGroup / kSignedValues * kMaxLanes];
};

template <size_t kCount>
HWY_INLINE void WeighPlain(PlainWeight plain, const float* x, V spread, float* w) {
  const D d;
  for (size_t i = 0; i < kCount; ++i) {
    const V xi = hn::Load(d, x + i * LaneCount());
    const V square = hn::Mul(xi, xi);
    V weight = square;
    if (plain == PlainWeight::kOnes) weight = hn::Sqrt(hn::Add(spread, square));
    if (plain == PlainWeight::kSmoothed) {
      weight = hn::Add(hn::Mul(Splat(0.25f), spread), square);
    }
    hn::Store(weight, d, w + i * LaneCount());
  }
}

// In lanes where an odd number of the eight values is negative, flips the sign that costs least.
HWY_INLINE VI TurnOneSign(const float* x, const float* w, VI signs, float* magnitudes) {
  const D d;
  const DI di;
  VI cheapest = hn::Zero(di);
  V least = hn::Zero(d);
  for (size_t i = 0; i < kSignedValues; ++i) {
    const V xi = hn::Load(d, x + i * LaneCount());
    const V cost = hn::Mul(hn::Mul(hn::Load(d, w + i * LaneCount()), xi), xi);
    const M better = i == 0 ? AllLanes() : hn::Lt(cost, least);
    least = hn::IfThenElse(better, cost, least);
    cheapest =
        hn::IfThenElse(hn::RebindMask(di, better), hn::Set(di, static_cast<int32_t>(i)), cheapest);
  }
  VI parity = hn::Xor(signs, hn::ShiftRight<4>(signs));
  parity = hn::Xor(parity, hn::ShiftRight<2>(parity));
  parity = hn::And(hn::Xor(parity, hn::ShiftRight<1>(parity)), hn::Set(di, 1));
  for (size_t i = 0; i < kSignedValues; ++i) {
    const VI bit = hn::Set(di, 1 << i);
    const auto turned = hn::And(hn::Eq(cheapest, hn::Set(di, static_cast<int32_t>(i))),
                                hn::Eq(parity, hn::Set(di, 1)));
    const V old = hn::Load(d, magnitudes + i * LaneCount());
    hn::Store(hn::IfThenElse(hn::RebindMask(d, turned), hn::Neg(old), old), d,
              magnitudes + i * LaneCount());
    signs = hn::IfThenElse(turned, hn::Xor(signs, bit), signs);
  }
  return signs;
}

template <size_t kCount>
HWY_INLINE void SplitSigns(bool even_signs, const float* x, LaneGroup& group) {
  const D d;
  const DI di;
  for (size_t first = 0; first < kCount; first += kSignedValues) {
    const size_t at = first * LaneCount();
    VI signs = hn::Zero(di);
    for (size_t i = 0; i < kSignedValues; ++i) {
      const V xi = hn::Load(d, x + at + i * LaneCount());
      const M positive = hn::Ge(xi, hn::Zero(d));
      hn::Store(hn::IfThenElse(positive, xi, hn::Neg(xi)), d,
                group.magnitudes + at + i * LaneCount());
      const VI bit = hn::Set(di, 1 << i);
      signs = hn::Or(signs, hn::IfThenZeroElse(hn::RebindMask(di, positive), bit));
    }
    if (even_signs) signs = TurnOneSign(x + at, group.weights + at, signs, group.magnitudes + at);
    hn::Store(signs, di, group.signs + first / kSignedValues * LaneCount());
  }
}

// x: the values of the group, which begin at `first` in their blocks.
template <size_t kCount>
HWY_INLINE void PrepareGroup(const GridRules& rules, const LaneBlocks& blocks, size_t first,
                             const float* x, V spread, LaneGroup& group) {
  const D d;
  if (blocks.weighted()) {
    LoadTransposed(blocks.weight, first, kCount, group.weights);
    WeighByImportance<kCount>(x, spread, group.weights);
  } else {
    WeighPlain<kCount>(rules.plain, x, spread, group.weights);
  }
  for (size_t i = 0; i < kCount; ++i) {
    const size_t at = i * LaneCount();
    hn::Store(hn::Sqrt(hn::Load(d, group.weights + at)), d, group.roots + at);
  }
  SplitSigns<kCount>(rules.even_signs, x, group);
}

// Packed points, by point and lane. Bit k of off_grid: the levels of point k were not a point.
struct LaneChoice {
  HWY_ALIGN int32_t points[8 * kMaxLanes];
  HWY_ALIGN int32_t off_grid[kMaxLanes];
};

struct LaneSums {
  V xl, ll;
};

template <class Grid, size_t kCount>
class LaneFitter {
 public:
  static constexpr size_t kPoints = kCount / Grid::kSize;

  // Lanes from `lanes` on repeat another lane and are not searched.
  HWY_INLINE LaneFitter(const Grid& grid, const LaneGroup& group, size_t lanes)
      : grid_(grid), group_(group), lanes_(lanes) {}

  // Chooses point k of the lanes in `wanted`; the other lanes keep theirs.
  HWY_INLINE void ChoosePoint(size_t k, V inverse, V scale, M wanted, LaneChoice& choice) const {
    const D d;
    const DI di;
    const float* const magnitudes = group_.magnitudes + k * Grid::kSize * LaneCount();
    const V half = Splat(0.5f), one = Splat(1.0f);
    const V top = Splat(static_cast<float>(Grid::kLevels - 1));
    V cell = hn::Zero(d);
    for (size_t i = Grid::kSize; i-- > 0;) {
      const V x = hn::Load(d, magnitudes + i * LaneCount());
      const V level = hn::Round(hn::Mul(half, hn::Sub(hn::Mul(inverse, x), one)));
      const V clamped = hn::Min(hn::Max(level, hn::Zero(d)), top);
      cell = hn::Add(hn::Mul(cell, Splat(static_cast<float>(Grid::kLevels))), clamped);
    }
    const VI cells = hn::IfThenElseZero(hn::RebindMask(di, wanted), hn::ConvertTo(di, cell));
    const VI entry = hn::GatherIndex(di, grid_.entries(), cells);
    const auto off = hn::And(hn::Lt(entry, hn::Zero(di)), hn::RebindMask(di, wanted));
    const VI old = hn::Load(di, choice.points + k * LaneCount());
    hn::Store(hn::IfThenElse(hn::RebindMask(di, wanted), entry, old), di,
              choice.points + k * LaneCount());
    const VI bits = hn::IfThenElseZero(off, hn::Set(di, 1 << k));
    hn::Store(hn::Or(hn::Load(di, choice.off_grid), bits), di, choice.off_grid);
    if (!hn::AllFalse(di, off)) SearchNeighbours(k, scale, choice);
  }

  HWY_INLINE LaneSums SumsOf(const LaneChoice& choice) const {
    const D d;
    const DI di;
    LaneSums sums{hn::Zero(d), hn::Zero(d)};
    for (size_t i = 0; i < kCount; ++i) {
      const VI point = hn::Load(di, choice.points + i / Grid::kSize * LaneCount());
      const VI shifted = hn::ShiftRightSame(point, static_cast<int>(i % Grid::kSize * Grid::kBits));
      const VI level = hn::And(shifted, hn::Set(di, (1 << Grid::kBits) - 1));
      const V value = ToFloat(hn::Add(hn::Add(level, level), hn::Set(di, 1)));
      const V weight = hn::Load(d, group_.weights + i * LaneCount());
      const V x = hn::Load(d, group_.magnitudes + i * LaneCount());
      sums.xl = hn::Add(sums.xl, hn::Mul(hn::Mul(weight, x), value));
      sums.ll = hn::Add(sums.ll, hn::Mul(hn::Mul(weight, value), value));
    }
    return sums;
  }

 private:
  HWY_NOINLINE void SearchNeighbours(size_t k, V scale, LaneChoice& choice) const {
    HWY_ALIGN float scales[kMaxLanes];
    hn::Store(scale, D(), scales);
    const size_t first = k * Grid::kSize * LaneCount();
    int32_t* const points = choice.points + k * LaneCount();
    for (size_t lane = 0; lane < lanes_; ++lane) {
      if (points[lane] >= 0) continue;
      const PointValues values{group_.magnitudes + first + lane, group_.roots + first + lane,
                               LaneCount()};
      points[lane] = NearestNeighbour(grid_, points[lane], values, scales[lane]);
    }
  }

  const Grid& grid_;
  const LaneGroup& group_;
  const size_t lanes_;
};

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
