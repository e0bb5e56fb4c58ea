#include "quant/q4_k.h"

namespace quant {
namespace {

constexpr PairSearch kSearch = {
    .plain = {.levels = 15, .first = -1.0f, .step = 0.1f, .last = 20},
    .with_importance = {.levels = 15, .first = -0.9f, .step = 0.05f, .last = 36},
    .cap_searched = false,
};
constexpr size_t kDistance = 32;  // of the two values of a byte

BlockQ4K EncodeBlock(Values values, Values importance) {
  BlockQ4K block;
  Levels q;
  block.pairs = FitPairs(values, importance, kSearch, q);
  PackFourBits(q, kDistance, block.qs);
  return block;
}

void DecodeBlock(const BlockQ4K& block, std::span<float> out) {
  for (size_t j = 0; j < ScalePairs::kGroups; ++j) {
    const ScaleAndMin group = block.pairs.Group(j);
    for (size_t i = 32 * j; i < 32 * j + 32; ++i) {
      out[i] = group.scale * static_cast<float>(FourBitsOf(block.qs, kDistance, i)) - group.min;
    }
  }
}

}  // namespace

void EncodeQ4KRef(Values values, Values importance, std::span<std::byte> out) {
  EncodeBlocks<BlockQ4K>(values, importance, out, EncodeBlock);
}

void DecodeQ4KRef(std::span<const std::byte> blocks, std::span<float> out) {
  DecodeBlocks<BlockQ4K>(blocks, out, DecodeBlock);
}

}  // namespace quant
