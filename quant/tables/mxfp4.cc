#include "quant/tables/mxfp4.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/tables/mxfp4.cc"
#include <hwy/foreach_target.h>

#include <array>
#include <cstring>

#include "quant/half.h"
#include "quant/tables/fp4-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

// Returns false where the scale, or a code times it, is not a normal number.
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

void DecodeMxfp4Lanes(std::span<const std::byte> in, std::span<float> out) {
#if HWY_TARGET == HWY_SCALAR
  DecodeMxfp4Ref(in, out);
#else
  const hn::Full128<int8_t> bytes;
  HWY_ALIGN int8_t codes[kGroup32];
  // DecodeBlocks is not used here: it is compiled without this instruction set and would call a
  // function per block, at a sixth of the speed.
  for (size_t i = 0; i < in.size() / sizeof(BlockMxfp4); ++i) {
    BlockMxfp4 block;
    std::memcpy(&block, in.data() + i * sizeof(block), sizeof(block));
    const NibbleHalves halves = LoadNibbles(block.qs);
    hn::Store(Fp4CodesOf(halves.low), bytes, codes);
    hn::Store(Fp4CodesOf(halves.high), bytes, codes + 16);
    const V scale = Splat(HalfOfE8M0(block.e));
    for (size_t j = 0; j < kGroup32; j += LaneCount()) {
      hn::StoreU(hn::Mul(LoadBytes(codes + j), scale), D(), out.data() + i * kGroup32 + j);
    }
  }
#endif
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
