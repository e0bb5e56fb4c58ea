// The values of rows of k-quants whose groups have a scale and a minimum, as in block_values-inl.h.
#if defined(MOEPACK_CPU_BLOCK_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOEPACK_CPU_BLOCK_PAIRS_INL_H_
#undef MOEPACK_CPU_BLOCK_PAIRS_INL_H_
#else
#define MOEPACK_CPU_BLOCK_PAIRS_INL_H_
#endif

#include "quant/k_quants/k_decode-inl.h"
#include "runtime-shim/cpu/block_bytes-inl.h"

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

}  // namespace HWY_NAMESPACE
}  // namespace moepack::runtime
HWY_AFTER_NAMESPACE();

#endif
