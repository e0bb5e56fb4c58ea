#include "quant/legacy/q5_1.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/legacy/q5_1.cc"
#include <hwy/foreach_target.h>

#include "quant/legacy/nibbles-inl.h"
#include "quant/search/scale32-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

void EncodeQ51Lanes(Values values, Values importance, std::span<std::byte> out) {
  if (!kHasVectors) return EncodeQ51Ref(values, importance, out);
  EncodeRanged<BlockQ51, kQ51Levels>({values, importance, out}, MakeQ51, EncodeBlockQ51);
}

HWY_INLINE void DecodeBlockQ51(const uint8_t* block, float* out) {
  const float d = LoadHalf(block + offsetof(BlockQ51, d)),
              m = LoadHalf(block + offsetof(BlockQ51, m));
  if (!std::isfinite(d) && !std::isfinite(m)) {
    return DecodeQ51Ref({reinterpret_cast<const std::byte*>(block), sizeof(BlockQ51)},
                        {out, kGroup32});
  }
  NibbleHalves halves = LoadNibbles(block + offsetof(BlockQ51, qs));
  OrFifthBits(block + offsetof(BlockQ51, qh), halves);
  Decode32(halves, ScaledPlus{Splat(d), Splat(m)}, out);
}

void DecodeQ51Lanes(std::span<const std::byte> in, std::span<float> out) {
  if (!kHasVectors) return DecodeQ51Ref(in, out);
  DecodeEach<BlockQ51, DecodeBlockQ51>(in, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quant {

HWY_EXPORT(EncodeQ51Lanes);

void EncodeQ51(Values values, Values importance, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(EncodeQ51Lanes)(values, importance, out);
}

HWY_EXPORT(DecodeQ51Lanes);

void DecodeQ51(std::span<const std::byte> blocks, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(DecodeQ51Lanes)(blocks, out);
}

}  // namespace quant
#endif
