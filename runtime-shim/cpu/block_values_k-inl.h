// The values of rows of k-quants, as in block_values-inl.h.
#if defined(MOEPACK_CPU_BLOCK_VALUES_K_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOEPACK_CPU_BLOCK_VALUES_K_INL_H_
#undef MOEPACK_CPU_BLOCK_VALUES_K_INL_H_
#else
#define MOEPACK_CPU_BLOCK_VALUES_K_INL_H_
#endif

#include "quant/k_quants/k_decode-inl.h"
#include "quant/k_quants/q4_k.h"
#include "quant/k_quants/q5_k.h"
#include "quant/k_quants/q6_k.h"
#include "runtime-shim/cpu/block_values-inl.h"

HWY_BEFORE_NAMESPACE();
namespace moepack::runtime {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128

// d * scale * q - dmin * min. The product has at most 11 + 6 + 5 bits, none below 2^-24 and none
// above 2^27, so F32 holds it exactly, and the difference is rounded once whether it is computed in
// one instruction or two: every finite block gives the bits of the decoders. One whose d or dmin is
// infinite or NaN gives NaN and infinities in the same places; which NaN depends on the compiler.
template <class Block>
struct PairedValues {
  static constexpr size_t kValues = Block::kValues, kBytes = sizeof(Block), kRows = 4;
  static constexpr size_t kGroup = kGroup32;
#if HWY_TARGET <= HWY_AVX3
  struct Scales {
    alignas(64) float scale[quant::ScalePairs::kGroups];
    float min[quant::ScalePairs::kGroups];  // right behind: both are one vector
  };
#else
  using Scales = quant_lanes::GroupRanges<quant::ScalePairs::kGroups>;
#endif
  using Byte = uint8_t;

  template <size_t kRowsNow>
  static HWY_INLINE void PrepareRows(const uint8_t* const (&blocks)[kRowsNow], size_t count,
                                     ScaleRows<PairedValues, kRowsNow>& scales) {
    for (size_t r = 0; r < kRowsNow; ++r) {
      const uint8_t* pairs = blocks[r] + offsetof(Block, pairs);
      for (size_t i = 0; i < count; ++i) LoadPairs(pairs + i * kBytes, scales[r][i]);
    }
  }
  static HWY_INLINE FloatVector ValueOf(const Scales& scales, size_t group, FloatVector level) {
    return hn::MulSub(SplatFloat(scales.scale[group]), level, SplatFloat(scales.min[group]));
  }

 private:
#if HWY_TARGET <= HWY_AVX3
  // All 16 levels of a block in one vector.
  static HWY_INLINE void LoadPairs(const uint8_t* pairs, Scales& scales) {
    const hn::Full256<uint32_t> words;
    const hn::Full256<uint8_t> bytes;
    const hn::Full256<hwy::float16_t> halves;
    HWY_ALIGN static constexpr uint8_t kSpread[] = {0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1,
                                                    2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3};
    const auto both = hn::Set(words, quant_lanes::LoadNumber<uint32_t>(pairs));  // d and dmin
    const auto spread = hn::TableLookupBytes(hn::BitCast(bytes, both), hn::LoadU(bytes, kSpread));
    const auto factors = hn::PromoteTo(FloatTag(), hn::BitCast(halves, spread));
    const auto levels =
        hn::ConvertTo(FloatTag(), hn::PromoteTo(IntegerTag(), quant_lanes::ScalesThenMins(pairs)));
    hn::Store(hn::Mul(factors, levels), FloatTag(), reinterpret_cast<float*>(&scales));
  }
#else
  static HWY_INLINE void LoadPairs(const uint8_t* pairs, Scales& scales) {
    quant_lanes::LoadPairs(pairs, scales);
  }
#endif
};

#endif

#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128

struct Q4KValues : PairedValues<quant::BlockQ4K> {
#if HWY_TARGET <= HWY_AVX3
  // A vector has room for the values of all 16 nibbles of a group, looked up by the lower four bits
  // of each lane: the upper nibble of a byte need not be cleared.
  static constexpr size_t kRun = 2 * quant::kQ4KDistance;

  template <size_t kIndex>
  static HWY_INLINE void Run(const uint8_t* block, const Scales& scales,
                             FloatVector (&values)[kRun / kVectorLanes]) {
    const uint8_t* const q = block + offsetof(quant::BlockQ4K, qs) + kIndex * quant::kQ4KDistance;
    const auto nibbles = hn::Iota(FloatTag(), 0.0f);
    const auto low = ValueOf(scales, 2 * kIndex, nibbles);
    const auto high = ValueOf(scales, 2 * kIndex + 1, nibbles);
    constexpr size_t kHalf = kRun / kVectorLanes / 2;
    for (size_t v = 0; v < kHalf; ++v) {
      const auto bytes = hn::PromoteTo(IntegerTag(), hn::LoadU(ByteTag(), q + v * kVectorLanes));
      values[v] = LookUp(low, bytes);
      values[kHalf + v] = LookUp(high, hn::ShiftRight<4>(bytes));
    }
  }
  // hn::IndicesFromVec expects indices without other bits.
  static HWY_INLINE FloatVector LookUp(FloatVector table, hn::Vec<IntegerTag> at) {
    return hn::TableLookupLanes(table, hn::Indices512<float>{at.raw});
  }
#else
  static constexpr size_t kRun = kGroup32;

  template <size_t kIndex>
  static HWY_INLINE void Run(const uint8_t* block, const Scales& scales,
                             FloatVector (&values)[kRun / kVectorLanes]) {
    const uint8_t* const q = block + offsetof(quant::BlockQ4K, qs) + kIndex / 2 * kGroup32;
    for (size_t v = 0; v < kRun / kVectorLanes; ++v) {
      const auto bytes = hn::PromoteTo(IntegerTag(), hn::LoadU(ByteTag(), q + v * kVectorLanes));
      const auto level =
          kIndex % 2 == 0 ? hn::And(bytes, hn::Set(IntegerTag(), 15)) : hn::ShiftRight<4>(bytes);
      values[v] = ValueOf(scales, kIndex, hn::ConvertTo(FloatTag(), level));
    }
  }
#endif
};

struct Q5KValues : PairedValues<quant::BlockQ5K> {
  static constexpr size_t kRun = kGroup32;

  template <size_t kIndex, class DB>
  static HWY_INLINE hn::Vec<DB> Levels(DB d, const uint8_t* block, size_t first) {
    const auto lower = quant_lanes::FourBitsFrom<quant::kQ5KDistance, kIndex * kRun>(
        d, block + offsetof(quant::BlockQ5K, qs), first);
    const auto upper = hn::LoadU(d, block + offsetof(quant::BlockQ5K, qh) + first);
    return hn::Or(lower, MoveBits<static_cast<int>(kIndex), 4>(d, upper, 0x10));
  }
  template <size_t kIndex>
  static HWY_INLINE void Run(const uint8_t* block, const Scales& scales,
                             FloatVector (&values)[kRun / kVectorLanes]) {
    RunOfBytes<Q5KValues, kIndex>(block, scales, values);
  }
};

struct Q6KValues {
  static constexpr size_t kValues = quant::BlockQ6K::kValues, kBytes = sizeof(quant::BlockQ6K);
  static constexpr size_t kGroup = kValues / quant::BlockQ6K::kGroups;
  static constexpr size_t kRun = kGroup32, kRows = 4;
  struct Scales {
    alignas(64) float scale[quant::BlockQ6K::kGroups];
  };
  using Byte = int8_t;

  template <size_t kRowsNow>
  static HWY_INLINE void PrepareRows(const uint8_t* const (&blocks)[kRowsNow], size_t count,
                                     ScaleRows<Q6KValues, kRowsNow>& scales) {
    for (size_t r = 0; r < kRowsNow; ++r) {
      const uint8_t* block = blocks[r];
      for (size_t i = 0; i < count; ++i, block += kBytes) {
        quant_lanes::ScaleLevels<quant::BlockQ6K::kGroups>(
            reinterpret_cast<const int8_t*>(block + offsetof(quant::BlockQ6K, scales)),
            quant_lanes::LoadHalf(block + offsetof(quant::BlockQ6K, d)), scales[r][i].scale);
      }
    }
  }
  static HWY_INLINE FloatVector ValueOf(const Scales& scales, size_t group, FloatVector level) {
    return hn::Mul(SplatFloat(scales.scale[group]), level);
  }
  // Nibbles are stored as PackFourBits puts them, their upper bits as PackTwoBits does (k_bits.h).
  template <size_t kIndex, class DB>
  static HWY_INLINE hn::Vec<hn::RebindToSigned<DB>> Levels(DB d, const uint8_t* block,
                                                           size_t first) {
    constexpr size_t kHalf = kValues / 2, kRunsOfHalf = kHalf / kRun;
    constexpr int kBit = static_cast<int>(kIndex % kRunsOfHalf * 2);  // of qh
    const auto lower = quant_lanes::FourBitsFrom<quant::kQ6KDistance, kIndex * kRun>(
        d, block + offsetof(quant::BlockQ6K, ql), first);
    const uint8_t* const high =
        block + offsetof(quant::BlockQ6K, qh) + kIndex / kRunsOfHalf * kRun + first;
    const auto upper = MoveBits<kBit, 4>(d, hn::LoadU(d, high), 0x30);
    return quant_lanes::SignedLevels(d, hn::Or(lower, upper), quant::kQ6KLevels);
  }
  template <size_t kIndex>
  static HWY_INLINE void Run(const uint8_t* block, const Scales& scales,
                             FloatVector (&values)[kRun / kVectorLanes]) {
    RunOfBytes<Q6KValues, kIndex>(block, scales, values);
  }
};

#endif

}  // namespace HWY_NAMESPACE
}  // namespace moepack::runtime
HWY_AFTER_NAMESPACE();

#endif
