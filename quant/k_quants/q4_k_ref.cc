#include "quant/k_quants/q4_k.h"

namespace quant {
namespace {

BlockQ4K EncodeBlock(Values values, Values importance) {
  Levels q;
  const ScalePairs pairs = FitPairs(values, importance, kQ4KSearch, q);
  return MakeBlockQ4K(pairs, q);
}

void DecodeBlock(const BlockQ4K& block, std::span<float> out) {
  for (size_t j = 0; j < ScalePairs::kGroups; ++j) {
    const ScaleAndMin group = block.pairs.Group(j);
    for (size_t i = 32 * j; i < 32 * j + 32; ++i) {
      out[i] = group.scale * static_cast<float>(FourBitsOf(block.qs, kQ4KDistance, i)) - group.min;
    }
  }
}

}  // namespace

BlockQ4K MakeBlockQ4K(const ScalePairs& pairs, const Levels& q) {
  BlockQ4K block;
  block.pairs = pairs;
  PackFourBits(q, kQ4KDistance, block.qs);
  return block;
}

void EncodeQ4KRef(Values values, Values importance, std::span<std::byte> out) {
  EncodeBlocks<BlockQ4K>(values, importance, out, EncodeBlock);
}

void DecodeQ4KRef(std::span<const std::byte> blocks, std::span<float> out) {
  DecodeBlocks<BlockQ4K>(blocks, out, DecodeBlock);
}

}  // namespace quant
