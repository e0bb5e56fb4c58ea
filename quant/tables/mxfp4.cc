#include "quant/tables/mxfp4.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/tables/mxfp4.cc"
#include <hwy/foreach_target.h>

#include <array>

#include "quant/half.h"
#include "quant/nibbles/nibbles-inl.h"
#include "quant/search/requantize-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

// Returns the nearest code, and the one of lower magnitude of two that are equally near. `value` is
// in units of half the scale, so that codes stand for 0 1 2 3 4 6 8 12. Zero has only the code
// without a sign.
HWY_INLINE VI NearestCode(V value) {
  const D d;
  const V magnitude = hn::Abs(value);
  V code = hn::Zero(d);
  for (const float middle : {0.5f, 1.5f, 2.5f, 3.5f, 5.0f, 7.0f, 10.0f}) {
    code = hn::Add(code, hn::IfThenElseZero(hn::Gt(magnitude, Splat(middle)), Splat(1.0f)));
  }
  const M negative = hn::And(hn::Lt(value, hn::Zero(d)), hn::Gt(code, hn::Zero(d)));
  return hn::ConvertTo(DI(), hn::Add(code, hn::IfThenElseZero(negative, Splat(8.0f))));
}

// Returns false where the scale, its inverse or the largest code times it is not a normal number.
// Otherwise dividing by the scale, a power of two, is exact except for values so small that their
// code is 0, and so are the differences that the reference compares.
HWY_INLINE bool EncodeBlock(const float* x, BlockMxfp4& block) {
  const D d;
  V largest = hn::Zero(d);
  for (size_t i = 0; i < kGroup32; i += LaneCount()) {
    const V magnitude = hn::Abs(hn::LoadU(d, x + i));
    largest = hn::IfThenElse(hn::Gt(magnitude, largest), magnitude, largest);
  }
  block.e = Mxfp4ExponentFor(hn::GetLane(hn::MaxOfLanes(d, largest)));
  if (block.e < 2 || block.e > 252) return false;
  const V inverse = Splat(1.0f / HalfOfE8M0(block.e));
  std::array<uint8_t, kGroup32> q;
  for (size_t i = 0; i < kGroup32; i += LaneCount()) {
    StoreLevels(NearestCode(hn::Mul(hn::LoadU(d, x + i), inverse)), q.data() + i);
  }
  PackNibbles(q, block.qs);
  return true;
}

void EncodeMxfp4Lanes(Values values, Values importance, std::span<std::byte> out) {
  if (!kHasVectors) return EncodeMxfp4Ref(values, importance, out);
  EncodeBlocksOr<BlockMxfp4>(EncodeMxfp4Ref, values, out, EncodeBlock);
}

HWY_INLINE void DecodeBlockMxfp4(const uint8_t* block, float* out) {
  HWY_ALIGN static constexpr int8_t kDoubled[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                                    0, -1, -2, -3, -4, -6, -8, -12};
  const NibbleHalves halves = LoadNibbles(block + offsetof(BlockMxfp4, qs));
  const float scale = HalfOfE8M0(block[offsetof(BlockMxfp4, e)]);
  DecodeCodes32(halves, hn::Load(DCodes(), kDoubled), scale, out);
}

void DecodeMxfp4Lanes(std::span<const std::byte> in, std::span<float> out) {
  if (!kHasVectors) return DecodeMxfp4Ref(in, out);
  DecodeEach<BlockMxfp4, DecodeBlockMxfp4>(in, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quant {

HWY_EXPORT(EncodeMxfp4Lanes);

void EncodeMxfp4(Values values, Values importance, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(EncodeMxfp4Lanes)(values, importance, out);
}

HWY_EXPORT(DecodeMxfp4Lanes);

void DecodeMxfp4(std::span<const std::byte> blocks, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(DecodeMxfp4Lanes)(blocks, out);
}

}  // namespace quant
#endif
