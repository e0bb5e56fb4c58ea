// Magnitudes, signs and weights of one group of every lane (MagnitudeGroup of grid_block.cc).
#if defined(QUANT_GRID_GROUP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_GRID_GROUP_INL_H_
#undef QUANT_GRID_GROUP_INL_H_
#else
#define QUANT_GRID_GROUP_INL_H_
#endif

#include "quant/grids/grid_block.h"
#include "quant/lanes-inl.h"
#include "quant/search/weights-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

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

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
