#include "quant/search/magnitude.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/search/magnitude.cc"
#include <hwy/foreach_target.h>

#include <bit>

#include "quant/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

HWY_INLINE VI MagnitudeBits(const float* values) {
  const DI di;
  return hn::And(hn::BitCast(di, hn::LoadU(D(), values)), hn::Set(di, 0x7fffffff));
}

// The maximum of integers does not depend on the order, so the lanes hold neighbours. Four vectors
// are used so that they do not wait for each other.
uint32_t LargestMagnitudeBitsLanes(std::span<const float> values) {
  const DI di;
  const size_t lanes = LaneCount();
  VI a = hn::Zero(di), b = a, c = a, e = a;
  size_t i = 0;
  for (; i + 4 * lanes <= values.size(); i += 4 * lanes) {
    const float* const at = values.data() + i;
    a = hn::Max(a, MagnitudeBits(at));
    b = hn::Max(b, MagnitudeBits(at + lanes));
    c = hn::Max(c, MagnitudeBits(at + 2 * lanes));
    e = hn::Max(e, MagnitudeBits(at + 3 * lanes));
  }
  const VI all = hn::Max(hn::Max(a, b), hn::Max(c, e));
  uint32_t largest = static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(di, all)));
  for (; i < values.size(); ++i) {
    largest = std::max(largest, std::bit_cast<uint32_t>(values[i]) & 0x7fffffff);
  }
  return largest;
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quant {

HWY_EXPORT(LargestMagnitudeBitsLanes);

uint32_t LargestMagnitudeBits(std::span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(LargestMagnitudeBitsLanes)(values);
}

}  // namespace quant
#endif
