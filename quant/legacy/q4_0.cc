#include "quant/legacy/q4_0.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/legacy/q4_0.cc"
#include <hwy/foreach_target.h>

#include "quant/legacy/nibbles-inl.h"
#include "quant/search/scale32-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

void EncodeQ40Lanes(Values values, Values importance, std::span<std::byte> out) {
  if (!kHasVectors) return EncodeQ40Ref(values, importance, out);
  EncodeScaled<BlockQ40, kQ40Levels>({values, importance, out}, MakeQ40, EncodeBlockQ40);
}

HWY_INLINE void DecodeBlockQ40(const uint8_t* block, float* out) {
  const NibbleHalves halves = LoadNibbles(block + offsetof(BlockQ40, qs));
  const Scaled value{Splat(LoadHalf(block + offsetof(BlockQ40, d)))};
  DecodeSigned32(halves, kQ40Levels, value, out);
}

void DecodeQ40Lanes(std::span<const std::byte> in, std::span<float> out) {
  if (!kHasVectors) return DecodeQ40Ref(in, out);
  DecodeEach<BlockQ40, DecodeBlockQ40>(in, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quant {

HWY_EXPORT(EncodeQ40Lanes);

void EncodeQ40(Values values, Values importance, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(EncodeQ40Lanes)(values, importance, out);
}

HWY_EXPORT(DecodeQ40Lanes);

void DecodeQ40(std::span<const std::byte> blocks, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(DecodeQ40Lanes)(blocks, out);
}

}  // namespace quant
#endif
