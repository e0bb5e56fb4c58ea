#include "quant/blocks.h"
#include "quant/half.h"
#include "quant/legacy/q5_0.h"
#include "quant/search/scale32.h"

namespace quant {
namespace {

void DecodeBlock(const BlockQ50& block, std::span<float> out) {
  uint8_t q[kGroup32];
  UnpackNibbles(block.qs, q);
  AddFifthBits(block.qh, q);
  const float d = HalfToFloat(block.d);
  for (size_t i = 0; i < kGroup32; ++i) out[i] = static_cast<float>(q[i] - kQ50Levels) * d;
}

}  // namespace

BlockQ50 EncodeBlockQ50(const Block32& block) {
  uint8_t q[kGroup32];
  const float scale = FitScale(block, kQ50Levels, q);
  return MakeQ50(scale, q);
}

void EncodeQ50Ref(Values values, Values importance, std::span<std::byte> out) {
  EncodeRowsOf32<BlockQ50>(values, importance, out, EncodeBlockQ50);
}

void DecodeQ50Ref(std::span<const std::byte> blocks, std::span<float> out) {
  DecodeBlocks<BlockQ50>(blocks, out, DecodeBlock);
}

}  // namespace quant
