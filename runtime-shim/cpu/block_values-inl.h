// The values of rows of weights, a few columns at a time and in registers, for one instruction set
// at a time (Highway includes this file once for each). A type of weights has
//
//   kValues, kBytes   of a block
//   kRows             rows that are worth processing side by side: additions of one do not wait for
//                     each other, and few enough lines of the first-level cache are in use whose
//                     addresses differ by a multiple of its ways' size
//   Scales            what PrepareRows makes from each of the rows' blocks: floats, so that the
//   values
//                     need not wait for what the scales are unpacked from
//   kRun              columns that Run<i> yields: [i * kRun, (i + 1) * kRun) of a block, with the
//                     bits of the type's decoder in quant/
#if defined(MOEPACK_CPU_BLOCK_VALUES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOEPACK_CPU_BLOCK_VALUES_INL_H_
#undef MOEPACK_CPU_BLOCK_VALUES_INL_H_
#else
#define MOEPACK_CPU_BLOCK_VALUES_INL_H_
#endif

#include <cstring>

#include "quant/decode-inl.h"
#include "quant/halves-inl.h"
#include "quant/legacy/q8_0.h"
#include "runtime-shim/cpu/dots-inl.h"
#include "runtime-shim/cpu/dots.h"

HWY_BEFORE_NAMESPACE();
namespace moepack::runtime {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128

namespace quant_lanes = quant::HWY_NAMESPACE;

constexpr size_t kVectorLanes = HWY_LANES(float);

// The scales of kRows rows side by side, for as many blocks as are added up at once.
template <class Values, size_t kRows>
using ScaleRows = typename Values::Scales[kRows][kColumnsAtOnce / Values::kValues];

// As an integer, because Zen 4 spends a shuffle on vbroadcastss with 512 bits, but only a load on
// vpbroadcastd.
HWY_INLINE FloatVector SplatFloat(const float& value) {
  int32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return hn::BitCast(FloatTag(), hn::Set(hn::RebindToSigned<FloatTag>(), bits));
}

// Types whose values are individual numbers. A block is kRun of them.
template <class Number, size_t kRowCount, class Convert>
struct PlainValues {
  static constexpr size_t kValues = 64, kBytes = kValues * sizeof(Number), kRun = kValues;
  static constexpr size_t kRows = kRowCount;
  struct Scales {};
  template <size_t kRowsNow>
  static HWY_INLINE void PrepareRows(const uint8_t* const (&)[kRowsNow], size_t,
                                     ScaleRows<PlainValues, kRowsNow>&) {}
  template <size_t kIndex>
  static HWY_INLINE void Run(const uint8_t* block, const Scales&,
                             FloatVector (&values)[kRun / kVectorLanes]) {
    const hn::Rebind<Number, FloatTag> numbers;
    const auto* const from = reinterpret_cast<const Number*>(block);
    for (size_t v = 0; v < kRun / kVectorLanes; ++v)
      values[v] = Convert::ToFloat(hn::LoadU(numbers, from + v * kVectorLanes));
  }
};

struct SameFloat {
  static HWY_INLINE FloatVector ToFloat(FloatVector value) { return value; }
};
struct FromBf16 {
  static HWY_INLINE FloatVector ToFloat(hn::Vec<hn::Rebind<uint16_t, FloatTag>> value) {
    const hn::Rebind<uint32_t, FloatTag> bits;
    return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(hn::PromoteTo(bits, value)));
  }
};
using HalfBits = hn::Rebind<uint16_t, FloatTag>;
struct FromF16 {
  static HWY_INLINE FloatVector ToFloat(hn::Vec<HalfBits> value) {
#if HWY_TARGET <= HWY_AVX2
    return hn::PromoteTo(FloatTag(), hn::BitCast(hn::Rebind<hwy::float16_t, FloatTag>(), value));
#else
    return quant::HWY_NAMESPACE::FloatOfHalf(
        hn::PromoteTo(hn::RebindToUnsigned<FloatTag>(), value));
#endif
  }
};
using F32Values = PlainValues<float, 2, SameFloat>;
using F16Values = PlainValues<uint16_t, 2, FromF16>;
using Bf16Values = PlainValues<uint16_t, 2, FromBf16>;

struct Q80Values {
  static constexpr size_t kValues = quant::BlockQ80::kValues, kBytes = sizeof(quant::BlockQ80);
  static constexpr size_t kRun = kValues, kRows = 4;
  using Scales = float;

  // All rows are copied before the first is loaded as a vector, because a load waits until the
  // stores of its parts are done.
  template <size_t kRowsNow>
  static HWY_INLINE void PrepareRows(const uint8_t* const (&blocks)[kRowsNow], size_t count,
                                     ScaleRows<Q80Values, kRowsNow>& scales) {
    constexpr size_t kMost = kColumnsAtOnce / kValues;
    alignas(64) uint16_t halves[kRowsNow][kMost] = {};
    for (size_t r = 0; r < kRowsNow; ++r) {
      const uint8_t* from = blocks[r] + offsetof(quant::BlockQ80, d);
      for (size_t i = 0; i < count; ++i, from += kBytes)
        std::memcpy(&halves[r][i], from, sizeof(halves[r][i]));
    }
    for (size_t r = 0; r < kRowsNow; ++r) {
      for (size_t i = 0; i < count; i += kVectorLanes) {
        const auto scale = FromF16::ToFloat(hn::Load(HalfBits(), &halves[r][i]));
        hn::StoreU(scale, FloatTag(), &scales[r][i]);
      }
    }
  }
  template <size_t kIndex>
  static HWY_INLINE void Run(const uint8_t* block, float scale,
                             FloatVector (&values)[kRun / kVectorLanes]) {
    const auto* const q = reinterpret_cast<const int8_t*>(block + offsetof(quant::BlockQ80, qs));
    for (size_t v = 0; v < kRun / kVectorLanes; ++v) {
      const auto level = quant::HWY_NAMESPACE::LoadBytes(FloatTag(), q + v * kVectorLanes);
      values[v] = hn::Mul(SplatFloat(scale), level);
    }
  }
};

#endif

// Integers unpacked into bytes, 32 columns at a time, for block_values-inl.h.

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
