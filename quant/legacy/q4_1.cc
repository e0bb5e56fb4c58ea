#include "quant/legacy/q4_1.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/legacy/q4_1.cc"
#include <hwy/foreach_target.h>

#include "quant/legacy/nibbles-inl.h"
#include "quant/search/scale32-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

void EncodeQ41Lanes(Values values, Values importance, std::span<std::byte> out) {
  if (!kHasVectors) return EncodeQ41Ref(values, importance, out);
  EncodeRanged<BlockQ41, kQ41Levels>({values, importance, out}, MakeQ41, EncodeBlockQ41);
}

HWY_INLINE void DecodeBlockQ41(const uint8_t* block, float* out) {
  const float d = LoadHalf(block + offsetof(BlockQ41, d)),
              m = LoadHalf(block + offsetof(BlockQ41, m));
  if (!std::isfinite(d) && !std::isfinite(m)) {
    return DecodeQ41Ref({reinterpret_cast<const std::byte*>(block), sizeof(BlockQ41)},
                        {out, kGroup32});
  }
  const NibbleHalves halves = LoadNibbles(block + offsetof(BlockQ41, qs));
  Decode32(halves, ScaledPlus{Splat(d), Splat(m)}, out);
}

void DecodeQ41Lanes(std::span<const std::byte> in, std::span<float> out) {
  if (!kHasVectors) return DecodeQ41Ref(in, out);
  DecodeEach<BlockQ41, DecodeBlockQ41>(in, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quant {

HWY_EXPORT(EncodeQ41Lanes);

void EncodeQ41(Values values, Values importance, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(EncodeQ41Lanes)(values, importance, out);
}

HWY_EXPORT(DecodeQ41Lanes);

void DecodeQ41(std::span<const std::byte> blocks, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(DecodeQ41Lanes)(blocks, out);
}

}  // namespace quant
#endif
