#include "quant/legacy/q5_0.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/legacy/q5_0.cc"
#include <hwy/foreach_target.h>

#include "quant/legacy/nibbles-inl.h"
#include "quant/search/scale32-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

void EncodeQ50Lanes(Values values, Values importance, std::span<std::byte> out) {
  if (!kHasVectors) return EncodeQ50Ref(values, importance, out);
  EncodeScaled<BlockQ50, kQ50Levels>({values, importance, out}, MakeQ50, EncodeBlockQ50);
}

HWY_INLINE void DecodeBlockQ50(const uint8_t* block, float* out) {
  NibbleHalves halves = LoadNibbles(block + offsetof(BlockQ50, qs));
  OrFifthBits(block + offsetof(BlockQ50, qh), halves);
  const Scaled value{Splat(LoadHalf(block + offsetof(BlockQ50, d)))};
  DecodeSigned32(halves, kQ50Levels, value, out);
}

void DecodeQ50Lanes(std::span<const std::byte> in, std::span<float> out) {
  if (!kHasVectors) return DecodeQ50Ref(in, out);
  DecodeEach<BlockQ50, DecodeBlockQ50>(in, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quant {

HWY_EXPORT(EncodeQ50Lanes);

void EncodeQ50(Values values, Values importance, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(EncodeQ50Lanes)(values, importance, out);
}

HWY_EXPORT(DecodeQ50Lanes);

void DecodeQ50(std::span<const std::byte> blocks, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(DecodeQ50Lanes)(blocks, out);
}

}  // namespace quant
#endif
