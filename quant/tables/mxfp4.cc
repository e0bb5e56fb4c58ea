#include "quant/tables/mxfp4.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/tables/mxfp4.cc"
#include <hwy/foreach_target.h>

#include <array>
#include <cstddef>

#include "quant/decode-inl.h"
#include "quant/half.h"
#include "quant/tables/fp4-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

// Returns false if the scale, or a code times it, is not a normal number.
HWY_INLINE bool EncodeMxfp4Block(const float* x, BlockMxfp4& block) {
  block.e = Mxfp4ExponentFor(LargestMagnitudeOf<kGroup32>(x));
  if (block.e < 2 || block.e > 252) return false;
  const float scale = HalfOfE8M0(block.e);
  std::array<uint8_t, kGroup32> q;
  for (size_t i = 0; i < kGroup32; i += LaneCount()) {
    StoreLevels(NearestFp4CodeOf(hn::LoadU(D(), x + i), scale), q.data() + i);
  }
  PackNibbles(q, block.qs);
  return true;
}

void EncodeMxfp4Lanes(Values values, Values importance, std::span<std::byte> out) {
  if (!kHasVectors) return EncodeMxfp4Ref(values, importance, out);
  EncodeBlocksOr<BlockMxfp4>(EncodeMxfp4Ref, values, out, EncodeMxfp4Block);
}

HWY_INLINE void DecodeBlockMxfp4(const uint8_t* block, float* out) {
  const NibbleHalves halves = LoadNibbles(block + offsetof(BlockMxfp4, qs));
  DecodeCodes32(halves, Fp4Codes(), HalfOfE8M0(block[offsetof(BlockMxfp4, e)]), out);
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
