// What the decoders of the k-quants share: the scales of all groups of a block at once, and its
// integers 32 neighbours at a time, which is how k_bits.h packs them.
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

// A plane is a run of 32 neighbouring values, which lie in 32 neighbouring bytes. A vector has a
// whole plane or half of one.
inline constexpr size_t kPlane = 32;
inline constexpr size_t kPlanes = kSuperBlock / kPlane;
using DPlane = hn::CappedTag<uint8_t, kPlane>;
using VPlane = hn::Vec<DPlane>;

HWY_INLINE VPlane BitsFrom(const uint8_t* bytes, size_t shift, uint8_t mask) {
  const DPlane d;
  const VPlane shifted = hn::ShiftRightSame(hn::LoadU(d, bytes), static_cast<int>(shift));
  return hn::And(shifted, hn::Set(d, mask));
}

// FourBitsOf, TwoBitsOf and OneBitOf of k_bits.h for value `at` and those after it in its plane.
HWY_INLINE VPlane FourBitsFrom(const uint8_t* packed, size_t distance, size_t at) {
  const size_t in_run = at % (2 * distance);
  const size_t byte = at / (2 * distance) * distance + in_run % distance;
  return BitsFrom(packed + byte, in_run < distance ? 0 : 4, 15);
}

HWY_INLINE VPlane TwoBitsFrom(const uint8_t* packed, size_t at) {
  return BitsFrom(packed + at / 128 * 32 + at % 32, at % 128 / 32 * 2, 3);
}

HWY_INLINE VPlane OneBitFrom(const uint8_t* packed, size_t at) {
  return BitsFrom(packed + at % 32, at / 32, 1);
}

// Stores bytes less `levels`, which makes them signed.
HWY_INLINE void StoreSignedBytes(VPlane bytes, uint8_t levels, int8_t* q) {
  const DPlane d;
  hn::Store(hn::Sub(bytes, hn::Set(d, levels)), d, reinterpret_cast<uint8_t*>(q));
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

// The same for eight levels that are the bytes of a word.
HWY_INLINE void ScaleWord(uint64_t levels, float d, float* out, int zero = 0) {
  uint8_t bytes[sizeof(levels)];
  std::memcpy(bytes, &levels, sizeof(levels));
  ScaleLevels<sizeof(levels)>(bytes, d, out, zero);
}

// d * scale and dmin * min of every group.
struct PairsOfGroups {
  HWY_ALIGN float scale[ScalePairs::kGroups];
  HWY_ALIGN float min[ScalePairs::kGroups];
};

// ScalePairs::Group of every group; `pairs` are the bytes of a ScalePairs.
HWY_INLINE void LoadPairs(const uint8_t* pairs, PairsOfGroups& out) {
  const uint8_t* const packed = pairs + offsetof(ScalePairs, packed);
  // Four levels at a time, one in each byte.
  const auto scales = LoadNumber<uint32_t>(packed), mins = LoadNumber<uint32_t>(packed + 4);
  const auto lower = LoadNumber<uint32_t>(packed + 8);
  const uint64_t last_scales = (lower & 0x0f0f0f0f) | (scales >> 2 & 0x30303030);
  const uint64_t last_mins = (lower >> 4 & 0x0f0f0f0f) | (mins >> 2 & 0x30303030);
  const float d = LoadHalf(pairs + offsetof(ScalePairs, d));
  const float dmin = LoadHalf(pairs + offsetof(ScalePairs, dmin));
  ScaleWord((scales & 0x3f3f3f3f) | last_scales << 32, d, out.scale);
  ScaleWord((mins & 0x3f3f3f3f) | last_mins << 32, dmin, out.min);
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
