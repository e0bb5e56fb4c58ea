// Integers unpacked into bytes, 32 columns at a time, for block_values-inl.h.
#if defined(MOEPACK_CPU_BLOCK_BYTES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOEPACK_CPU_BLOCK_BYTES_INL_H_
#undef MOEPACK_CPU_BLOCK_BYTES_INL_H_
#else
#define MOEPACK_CPU_BLOCK_BYTES_INL_H_
#endif

#include "runtime-shim/cpu/block_values-inl.h"

HWY_BEFORE_NAMESPACE();
namespace moepack::runtime {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128

using IntegerTag = hn::RebindToSigned<FloatTag>;
using ByteTag = hn::Rebind<uint8_t, FloatTag>;
constexpr size_t kGroup32 = 32;

// Calls take(v, integers) for vector v of a run of 32, from kFirst on: as many as the bytes have.
template <size_t kFirst, class DB, class Take>
HWY_INLINE void ForEachVector(DB, hn::Vec<DB> bytes, const Take& take) {
  if constexpr (hn::MaxLanes(DB()) <= kVectorLanes) {
    take(kFirst, hn::ConvertTo(FloatTag(), hn::PromoteTo(IntegerTag(), bytes)));
  } else {
    const hn::Half<DB> half;
    ForEachVector<kFirst>(half, hn::LowerHalf(half, bytes), take);
    ForEachVector<kFirst + hn::MaxLanes(half) / kVectorLanes>(half, hn::UpperHalf(half, bytes),
                                                              take);
  }
}

// Run<kIndex> for types that make the integers of 32 columns in bytes.
template <class Values, size_t kIndex, size_t kFirst = 0>
HWY_INLINE void RunOfBytes(const uint8_t* block, const typename Values::Scales& scales,
                           FloatVector (&values)[kGroup32 / kVectorLanes]) {
  const hn::CappedTag<uint8_t, kGroup32> bytes;
  constexpr size_t kMost = hn::MaxLanes(hn::CappedTag<uint8_t, kGroup32>());
  const hn::Rebind<typename Values::Byte, decltype(bytes)> levels;
  ForEachVector<kFirst / kVectorLanes>(
      levels, Values::template Levels<kIndex>(bytes, block, kFirst),
      [&](size_t v, FloatVector integers) {
        const size_t column = kIndex * kGroup32 + v * kVectorLanes;
        values[v] = Values::ValueOf(scales, column / Values::kGroup, integers);
      });
  if constexpr (kFirst + kMost < kGroup32)
    RunOfBytes<Values, kIndex, kFirst + kMost>(block, scales, values);
}

// Shifts bits within each byte by kTo - kFrom, and keeps those of `mask`.
template <int kFrom, int kTo, class DB>
HWY_INLINE hn::Vec<DB> MoveBits(DB d, hn::Vec<DB> bytes, uint8_t mask) {
  if constexpr (kFrom > kTo) {
    return hn::And(hn::ShiftRight<kFrom - kTo>(bytes), hn::Set(d, mask));
  } else {
    return hn::And(hn::ShiftLeft<kTo - kFrom>(bytes), hn::Set(d, mask));
  }
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace moepack::runtime
HWY_AFTER_NAMESPACE();

#endif
