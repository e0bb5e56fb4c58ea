#include "quant/blocks.h"
#include "quant/half.h"
#include "quant/legacy/q4_1.h"
#include "quant/search/scale32.h"

namespace quant {
namespace {

void DecodeBlock(const BlockQ41& block, std::span<float> out) {
  uint8_t q[kGroup32];
  UnpackNibbles(block.qs, q);
  const float d = HalfToFloat(block.d);
  const float m = HalfToFloat(block.m);
  for (size_t i = 0; i < kGroup32; ++i) out[i] = static_cast<float>(q[i]) * d + m;
}

}  // namespace

BlockQ41 EncodeBlockQ41(const Block32& block) {
  uint8_t q[kGroup32];
  const ScaleAndMin fit = FitRange(block, kQ41Levels, q);
  return MakeQ41(fit, q);
}

void EncodeQ41Ref(Values values, Values importance, std::span<std::byte> out) {
  EncodeRowsOf32<BlockQ41>(values, importance, out, EncodeBlockQ41);
}

void DecodeQ41Ref(std::span<const std::byte> blocks, std::span<float> out) {
  DecodeBlocks<BlockQ41>(blocks, out, DecodeBlock);
}

}  // namespace quant
