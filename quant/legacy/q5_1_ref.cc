#include "quant/blocks.h"
#include "quant/half.h"
#include "quant/legacy/q5_1.h"
#include "quant/search/scale32.h"

namespace quant {
namespace {

void DecodeBlock(const BlockQ51& block, std::span<float> out) {
  uint8_t q[kGroup32];
  UnpackNibbles(block.qs, q);
  AddFifthBits(block.qh, q);
  const float d = HalfToFloat(block.d);
  const float m = HalfToFloat(block.m);
  for (size_t i = 0; i < kGroup32; ++i) out[i] = static_cast<float>(q[i]) * d + m;
}

}  // namespace

BlockQ51 EncodeBlockQ51(const Block32& block) {
  uint8_t q[kGroup32];
  const ScaleAndMin fit = FitRange(block, kQ51Levels, q);
  return MakeQ51(fit, q);
}

void EncodeQ51Ref(Values values, Values importance, std::span<std::byte> out) {
  EncodeRowsOf32<BlockQ51>(values, importance, out, EncodeBlockQ51);
}

void DecodeQ51Ref(std::span<const std::byte> blocks, std::span<float> out) {
  DecodeBlocks<BlockQ51>(blocks, out, DecodeBlock);
}

}  // namespace quant
