#include "quant/blocks.h"
#include "quant/half.h"
#include "quant/legacy/q4_0.h"
#include "quant/search/scale32.h"

namespace quant {
namespace {

void DecodeBlock(const BlockQ40& block, std::span<float> out) {
  uint8_t q[kGroup32];
  UnpackNibbles(block.qs, q);
  const float d = HalfToFloat(block.d);
  for (size_t i = 0; i < kGroup32; ++i) out[i] = static_cast<float>(q[i] - kQ40Levels) * d;
}

}  // namespace

BlockQ40 EncodeBlockQ40(const Block32& block) {
  uint8_t q[kGroup32];
  const float scale = FitScale(block, kQ40Levels, q);
  return MakeQ40(scale, q);
}

void EncodeQ40Ref(Values values, Values importance, std::span<std::byte> out) {
  EncodeRowsOf32<BlockQ40>(values, importance, out, EncodeBlockQ40);
}

void DecodeQ40Ref(std::span<const std::byte> blocks, std::span<float> out) {
  DecodeBlocks<BlockQ40>(blocks, out, DecodeBlock);
}

}  // namespace quant
