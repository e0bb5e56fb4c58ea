#include "quant/k_quants/q5_k.h"

namespace quant {
namespace {

BlockQ5K EncodeBlock(Values values, Values importance) {
  Levels q;
  const ScalePairs pairs = FitPairs(values, importance, kQ5KSearch, q);
  return MakeBlockQ5K(pairs, q);
}

void DecodeBlock(const BlockQ5K& block, std::span<float> out) {
  for (size_t j = 0; j < ScalePairs::kGroups; ++j) {
    const ScaleAndMin group = block.pairs.Group(j);
    for (size_t i = 32 * j; i < 32 * j + 32; ++i) {
      const unsigned q = FourBitsOf(block.qs, kQ5KDistance, i) | OneBitOf(block.qh, i) << 4;
      out[i] = group.scale * static_cast<float>(q) - group.min;
    }
  }
}

}  // namespace

BlockQ5K MakeBlockQ5K(const ScalePairs& pairs, const Levels& q) {
  BlockQ5K block;
  block.pairs = pairs;
  PackFourBits(q, kQ5KDistance, block.qs);
  PackOneBit(q, 4, block.qh);
  return block;
}

void EncodeQ5KRef(Values values, Values importance, std::span<std::byte> out) {
  EncodeBlocks<BlockQ5K>(values, importance, out, EncodeBlock);
}

void DecodeQ5KRef(std::span<const std::byte> blocks, std::span<float> out) {
  DecodeBlocks<BlockQ5K>(blocks, out, DecodeBlock);
}

}  // namespace quant
