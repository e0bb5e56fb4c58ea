#include "quant/blocks.h"
#include "quant/half.h"
#include "quant/tables/iq4.h"
#include "quant/tables/iq4_nl.h"

namespace quant {
namespace {

// The codes are chosen for the scale before it is rounded to F16.
BlockIq4Nl EncodeBlock(Values values, Values importance) {
  const float scale = FitIq4Scale(values, importance, Iq4Spread(values));
  const float inverse = scale != 0 ? 1 / scale : 0.0f;
  uint8_t q[kGroup32];
  for (size_t i = 0; i < kGroup32; ++i) q[i] = NearestIq4Code(inverse * values[i]);
  BlockIq4Nl block;
  block.d = ScaleToHalf(scale);
  PackNibbles(q, block.qs);
  return block;
}

void DecodeBlock(const BlockIq4Nl& block, std::span<float> out) {
  uint8_t q[kGroup32];
  UnpackNibbles(block.qs, q);
  const float d = HalfToFloat(block.d);
  for (size_t i = 0; i < kGroup32; ++i) out[i] = d * kIq4Codes[q[i]];
}

}  // namespace

void EncodeIq4NlRef(Values values, Values importance, std::span<std::byte> out) {
  EncodeBlocks<BlockIq4Nl>(values, importance, out, EncodeBlock);
}

void DecodeIq4NlRef(std::span<const std::byte> blocks, std::span<float> out) {
  DecodeBlocks<BlockIq4Nl>(blocks, out, DecodeBlock);
}

}  // namespace quant
