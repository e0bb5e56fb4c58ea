// Blocks side by side in the lanes of vectors, for one instruction set at a time (Highway includes
// this file once for each): vector i holds value i of every block, so each block keeps its own
// order of additions and gets the bits of the scalar reference. docs/quant-formats.md.
#if defined(QUANT_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_LANES_INL_H_
#undef QUANT_LANES_INL_H_
#else
#define QUANT_LANES_INL_H_
#endif

#include <hwy/highway.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "quant/lane_blocks.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, kMaxLanes>;
using DI = hn::RebindToSigned<D>;
using V = hn::Vec<D>;
using VI = hn::Vec<DI>;
using M = hn::Mask<D>;

// False if the scalar references are faster.
inline constexpr bool kHasVectors = HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128;

HWY_INLINE size_t LaneCount() { return hn::Lanes(D()); }

HWY_INLINE V Splat(float value) { return hn::Set(D(), value); }

// out[(i * step) * lanes + lane] = rows[lane][first + i], for `count` values; count is a multiple
// of
// 4. `step` is the distance between the vectors.
#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void LoadTransposed(const float* const* rows, size_t first, size_t count, float* out,
                               size_t step = 1) {
  for (size_t i = 0; i < count; ++i) out[i * step] = rows[0][first + i];
}
#else
// Turns four rows of four into four columns of four.
HWY_INLINE void TransposeFour(const float* const* rows, size_t at, float* out, size_t stride) {
  const hn::Full128<float> d;
  const hn::Full128<double> wide;
  const auto a = hn::LoadU(d, rows[0] + at), b = hn::LoadU(d, rows[1] + at);
  const auto c = hn::LoadU(d, rows[2] + at), e = hn::LoadU(d, rows[3] + at);
  const auto ab = hn::BitCast(wide, hn::InterleaveLower(d, a, b));
  const auto ce = hn::BitCast(wide, hn::InterleaveLower(d, c, e));
  const auto ab_upper = hn::BitCast(wide, hn::InterleaveUpper(d, a, b));
  const auto ce_upper = hn::BitCast(wide, hn::InterleaveUpper(d, c, e));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, ab, ce)), d, out);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, ab, ce)), d, out + stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, ab_upper, ce_upper)), d, out + 2 * stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, ab_upper, ce_upper)), d, out + 3 * stride);
}

HWY_INLINE void LoadTransposed(const float* const* rows, size_t first, size_t count, float* out,
                               size_t step = 1) {
  const size_t lanes = LaneCount(), distance = step * lanes;
  for (size_t i = 0; i < count; i += 4) {
    for (size_t lane = 0; lane < lanes; lane += 4) {
      TransposeFour(rows + lane, first + i, out + i * distance + lane, distance);
    }
  }
}
#endif

// NearestInt of rounding.h, for every float.
HWY_INLINE VI NearestIntOf(V value) {
  const DI di;
  const VI bits = hn::BitCast(di, hn::Add(value, Splat(0x1.8p23f)));
  const VI rounded = hn::Sub(hn::And(bits, hn::Set(di, 0x007fffff)), hn::Set(di, 0x00400000));
  return hn::IfThenZeroElse(hn::RebindMask(di, hn::IsNaN(value)), rounded);
}

HWY_INLINE VI ClampLevel(VI level, int lowest, int highest) {
  const DI di;
  return hn::Min(hn::Max(level, hn::Set(di, lowest)), hn::Set(di, highest));
}

HWY_INLINE M AllLanes() { return hn::Eq(hn::Zero(D()), hn::Zero(D())); }

HWY_INLINE V ToFloat(VI level) { return hn::ConvertTo(D(), level); }

HWY_INLINE void StoreMask(M mask, bool (&out)[kMaxLanes]) {
  HWY_ALIGN float lanes[kMaxLanes];
  hn::Store(hn::IfThenElseZero(mask, Splat(1.0f)), D(), lanes);
  for (size_t lane = 0; lane < LaneCount(); ++lane) out[lane] = lanes[lane] != 0;
}

// The entries of `by_group`, [group][lane], for one lane.
template <size_t kGroups>
HWY_INLINE std::array<float, kGroups> OfLane(const float* by_group, size_t lane) {
  std::array<float, kGroups> out;
  for (size_t j = 0; j < kGroups; ++j) out[j] = by_group[j * LaneCount() + lane];
  return out;
}

// The largest magnitude of kCount neighbours, a multiple of the lanes. The order does not matter
// for a maximum, and a NaN is not greater than anything.
template <size_t kCount>
HWY_INLINE float LargestMagnitudeOf(const float* x) {
  const D d;
  V largest = hn::Zero(d);
  for (size_t i = 0; i < kCount; i += LaneCount()) {
    const V magnitude = hn::Abs(hn::LoadU(d, x + i));
    largest = hn::IfThenElse(hn::Gt(magnitude, largest), magnitude, largest);
  }
  return hn::GetLane(hn::MaxOfLanes(d, largest));
}

// Below this magnitude Round gives the same as NearestInt.
HWY_INLINE M RoundsAsNearestInt(V value) { return hn::Lt(hn::Abs(value), Splat(0x1p22f)); }

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
