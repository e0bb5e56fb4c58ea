#include "quant/tables/iq4_nl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/tables/iq4_nl.cc"
#include <hwy/foreach_target.h>

#include "quant/half.h"
#include "quant/tables/iq4-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

BlockIq4Nl FinishLane(const float* values, float scale) {
  uint8_t q[kGroup32];
  // As in the reference, the codes are chosen with the scale as it was before rounding to F16.
  NearestIq4Codes(values, scale != 0 ? 1 / scale : 0.0f, q);
  BlockIq4Nl block;
  block.d = ScaleToHalf(scale);
  PackNibbles(q, block.qs);
  return block;
}

void EncodeLanes(const LaneBlocks& blocks, std::span<BlockIq4Nl> out) {
  HWY_ALIGN float x[kGroup32 * kMaxLanes], scale[kMaxLanes];
  bool exact[kMaxLanes];
  LoadTransposed(blocks.value, 0, kGroup32, x);
  const Iq4Fit fit = FitIq4Group(blocks, 0, x, Iq4SpreadOf<kGroup32>(x));
  hn::Store(fit.scale, D(), scale);
  StoreMask(fit.exact, exact);
  for (size_t lane = 0; lane < blocks.count; ++lane) {
    if (exact[lane]) {
      out[lane] = FinishLane(blocks.value[lane], scale[lane]);
    } else {
      EncodeByReference(blocks, lane, EncodeIq4NlRef, out[lane]);
    }
  }
}

void EncodeIq4NlLanes(Values values, Values importance, std::span<std::byte> out) {
  if (!kHasVectors) return EncodeIq4NlRef(values, importance, out);
  EncodeInLanes<BlockIq4Nl>({values, importance, out}, LaneCount(), EncodeLanes);
}

HWY_INLINE void DecodeBlockIq4Nl(const uint8_t* block, float* out) {
  const NibbleHalves halves = LoadNibbles(block + offsetof(BlockIq4Nl, qs));
  DecodeCodes32(halves, Iq4Codes(), LoadHalf(block + offsetof(BlockIq4Nl, d)), out);
}

void DecodeIq4NlLanes(std::span<const std::byte> in, std::span<float> out) {
  if (!kHasVectors) return DecodeIq4NlRef(in, out);
  DecodeEach<BlockIq4Nl, DecodeBlockIq4Nl>(in, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quant {

HWY_EXPORT(EncodeIq4NlLanes);

void EncodeIq4Nl(Values values, Values importance, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(EncodeIq4NlLanes)(values, importance, out);
}

HWY_EXPORT(DecodeIq4NlLanes);

void DecodeIq4Nl(std::span<const std::byte> blocks, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(DecodeIq4NlLanes)(blocks, out);
}

}  // namespace quant
#endif
