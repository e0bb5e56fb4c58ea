// Code shared by the decoders of the k-quants: the scales of a block, the integers of each group.
#if defined(QUANT_K_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_K_DECODE_INL_H_
#undef QUANT_K_DECODE_INL_H_
#else
#define QUANT_K_DECODE_INL_H_
#endif

#include "quant/decode-inl.h"
#include "quant/k_quants/k_bits.h"
#include "quant/search/k_pairs.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

template <unsigned kShift, class DB>
HWY_INLINE hn::Vec<DB> BitsFrom(DB d, const uint8_t* bytes, uint8_t mask) {
  return hn::And(hn::ShiftRight<kShift>(hn::LoadU(d, bytes)), hn::Set(d, mask));
}

// FourBitsOf, TwoBitsOf and OneBitOf of k_bits.h for as many values as `d` has lanes, from value
// kFirst + i on. All of them are within the run of 32 that starts at kFirst.
template <size_t kDistance, size_t kFirst, class DB>
HWY_INLINE hn::Vec<DB> FourBitsFrom(DB d, const uint8_t* packed, size_t i) {
  constexpr size_t kInRun = kFirst % (2 * kDistance);
  constexpr size_t kByte = kFirst / (2 * kDistance) * kDistance + kInRun % kDistance;
  return BitsFrom<(kInRun < kDistance ? 0 : 4)>(d, packed + kByte + i, 15);
}

template <size_t kFirst, class DB>
HWY_INLINE hn::Vec<DB> TwoBitsFrom(DB d, const uint8_t* packed, size_t i) {
  return BitsFrom<kFirst % 128 / 32 * 2>(d, packed + kFirst / 128 * 32 + kFirst % 32 + i, 3);
}

template <size_t kFirst, class DB>
HWY_INLINE hn::Vec<DB> OneBitFrom(DB d, const uint8_t* packed, size_t i) {
  return BitsFrom<kFirst / 32>(d, packed + kFirst % 32 + i, 1);
}

// bytes - levels.
template <class DB>
HWY_INLINE hn::Vec<hn::RebindToSigned<DB>> SignedLevels(DB d, hn::Vec<DB> bytes, uint8_t levels) {
  return hn::BitCast(hn::RebindToSigned<DB>(), hn::Sub(bytes, hn::Set(d, levels)));
}

// out[j] = d * (levels[j] - zero), for integers. Byte is uint8_t or int8_t.
template <size_t kCount, class Byte>
HWY_INLINE void ScaleLevels(const Byte* levels, float d, float* out, int zero = 0) {
  const hn::CappedTag<float, kCount> floats;
  const auto zeros = hn::Set(floats, static_cast<float>(zero));
  for (size_t j = 0; j < kCount; j += hn::Lanes(floats)) {
    const auto level = hn::Sub(LoadBytes(floats, levels + j), zeros);
    hn::Store(hn::Mul(hn::Set(floats, d), level), floats, out + j);
  }
}

// The same for eight levels stored as the bytes of a word.
HWY_INLINE void ScaleWord(uint64_t levels, float d, float* out, int zero = 0) {
  uint8_t bytes[sizeof(levels)];
  std::memcpy(bytes, &levels, sizeof(levels));
  ScaleLevels<sizeof(levels)>(bytes, d, out, zero);
}

// d * scale of every group, for signed integers.
template <size_t kGroupCount>
struct GroupScales {
  static constexpr size_t kGroups = kGroupCount;
  using Byte = int8_t;
  HWY_ALIGN float scale[kGroups];
  HWY_INLINE Scaled Group(size_t j) const { return {Splat(scale[j])}; }
};

// d * scale and dmin * min of every group, for unsigned integers.
template <size_t kGroupCount>
struct GroupRanges {
  static constexpr size_t kGroups = kGroupCount;
  using Byte = uint8_t;
  HWY_ALIGN float scale[kGroups];
  HWY_ALIGN float min[kGroups];
  HWY_INLINE ScaledAbove Group(size_t j) const { return {Splat(scale[j]), Splat(min[j])}; }
};

// Decodes the groups of a block from number kGroup on. Levels::From<kFirst>(d, block, i) has the
// integers of the values from kFirst + i on, as many as `d` has lanes. This is not a loop because
// positions and shifts are constants in each group.
template <class Levels, size_t kGroup = 0, class Scales>
HWY_INLINE void DecodeGroups(const uint8_t* block, const Scales& scales, float* out) {
  constexpr size_t kGroupValues = kSuperBlock / Scales::kGroups, kFirst = kGroup * kGroupValues;
  const hn::CappedTag<uint8_t, kGroupValues> bytes;
  const hn::Rebind<typename Scales::Byte, decltype(bytes)> integers;
  const auto value = scales.Group(kGroup);
  for (size_t i = 0; i < kGroupValues; i += hn::Lanes(bytes)) {
    const auto q = Levels::template From<kFirst>(bytes, block, i);
    DecodeBytes(integers, q, value, out + kFirst + i);
  }
  if constexpr (kGroup + 1 < Scales::kGroups) DecodeGroups<Levels, kGroup + 1>(block, scales, out);
}

#if HWY_TARGET <= HWY_AVX2
// The levels of a ScalePairs: eight scales, then eight minimums.
HWY_INLINE hn::Vec<hn::Full128<uint8_t>> ScalesThenMins(const uint8_t* pairs) {
  const hn::Full128<uint8_t> bytes;
  const hn::Full128<uint32_t> words;
  // words 1 to 3: scales, minimums, lower bits of both
  HWY_ALIGN static constexpr uint8_t kLower[] = {4, 5, 6,  7,  12, 13, 14, 15,
                                                 8, 9, 10, 11, 12, 13, 14, 15};
  HWY_ALIGN static constexpr uint8_t kUpper[] = {4, 5, 6,  7,  4, 5, 6,  7,
                                                 8, 9, 10, 11, 8, 9, 10, 11};
  HWY_ALIGN static constexpr uint32_t kLowerMask[] = {0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0};
  HWY_ALIGN static constexpr uint32_t kShiftedMask[] = {0, 0, 0, 0x0f0f0f0f};
  HWY_ALIGN static constexpr uint32_t kUpperMask[] = {0, 0x30303030, 0, 0x30303030};
  const auto all = hn::LoadU(bytes, pairs);
  const auto lower = hn::BitCast(words, hn::TableLookupBytes(all, hn::Load(bytes, kLower)));
  const auto upper = hn::BitCast(words, hn::TableLookupBytes(all, hn::Load(bytes, kUpper)));
  const auto levels = hn::Or(hn::And(lower, hn::Load(words, kLowerMask)),
                             hn::And(hn::ShiftRight<4>(lower), hn::Load(words, kShiftedMask)));
  const auto rest = hn::And(hn::ShiftRight<2>(upper), hn::Load(words, kUpperMask));
  return hn::BitCast(bytes, hn::Or(levels, rest));
}
HWY_INLINE void UnpackPairs(const uint8_t* pairs, uint8_t* scales_then_mins) {
  hn::StoreU(ScalesThenMins(pairs), hn::Full128<uint8_t>(), scales_then_mins);
}
#else
HWY_INLINE void UnpackPairs(const uint8_t* pairs, uint8_t* scales_then_mins) {
  const uint8_t* const packed = pairs + offsetof(ScalePairs, packed);
  // Four levels at a time, one in each byte.
  const auto scales = LoadNumber<uint32_t>(packed), mins = LoadNumber<uint32_t>(packed + 4);
  const auto lower = LoadNumber<uint32_t>(packed + 8);
  const uint32_t words[] = {scales & 0x3f3f3f3f, (lower & 0x0f0f0f0f) | (scales >> 2 & 0x30303030),
                            mins & 0x3f3f3f3f,
                            (lower >> 4 & 0x0f0f0f0f) | (mins >> 2 & 0x30303030)};
  std::memcpy(scales_then_mins, words, sizeof(words));
}
#endif

// ScalePairs::Group for every group; `pairs` are the bytes of a ScalePairs.
HWY_INLINE void LoadPairs(const uint8_t* pairs, GroupRanges<ScalePairs::kGroups>& out) {
  HWY_ALIGN uint8_t levels[2 * ScalePairs::kGroups];
  UnpackPairs(pairs, levels);
  ScaleLevels<ScalePairs::kGroups>(levels, LoadHalf(pairs + offsetof(ScalePairs, d)), out.scale);
  ScaleLevels<ScalePairs::kGroups>(levels + ScalePairs::kGroups,
                                   LoadHalf(pairs + offsetof(ScalePairs, dmin)), out.min);
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
