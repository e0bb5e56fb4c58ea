#include "quant/blocks.h"
#include "quant/half.h"
#include "quant/ternary/tq2_0.h"

namespace quant {
namespace {

BlockTq20 EncodeBlockTq20(Values values, Values) {
  BlockTq20 block;
  Levels trits;
  block.d = ScaleToHalf(TernaryTrits(values, trits));
  PackTwoBits(trits, 0, block.qs);
  return block;
}

void DecodeBlockTq20(const BlockTq20& block, std::span<float> out) {
  const float d = HalfToFloat(block.d);
  for (size_t i = 0; i < kSuperBlock; ++i) {
    out[i] = static_cast<float>(static_cast<int>(TwoBitsOf(block.qs, i)) - 1) * d;
  }
}

}  // namespace

void EncodeTq20Ref(Values values, Values importance, std::span<std::byte> out) {
  EncodeBlocks<BlockTq20>(values, importance, out, EncodeBlockTq20);
}

void DecodeTq20Ref(std::span<const std::byte> blocks, std::span<float> out) {
  DecodeBlocks<BlockTq20>(blocks, out, DecodeBlockTq20);
}

}  // namespace quant
