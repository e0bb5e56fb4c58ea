// The nearest of the points around eight values of iq1_s and iq1_m, with a point in each lane.
#if defined(QUANT_IQ1_NEIGHBOURS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_IQ1_NEIGHBOURS_INL_H_
#undef QUANT_IQ1_NEIGHBOURS_INL_H_
#else
#define QUANT_IQ1_NEIGHBOURS_INL_H_
#endif

#include <limits>

#include "quant/lanes-inl.h"
#include "quant/ternary/iq1.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

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

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
