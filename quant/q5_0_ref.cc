#include "quant/blocks.h"
#include "quant/half.h"
#include "quant/q5_0.h"
#include "quant/scale32.h"

namespace quant {
namespace {

constexpr int kLevels = 16;

void DecodeBlock(const BlockQ50& block, std::span<float> out) {
  uint8_t q[kGroup32];
  UnpackNibbles(block.qs, q);
  AddFifthBits(block.qh, q);
  const float d = HalfToFloat(block.d);
  for (size_t i = 0; i < kGroup32; ++i) out[i] = static_cast<float>(q[i] - kLevels) * d;
}

}  // namespace

void EncodeQ50Ref(Values values, Values importance, std::span<std::byte> out) {
  const float spread = SpreadOfRow(values, importance);
  EncodeBlocks<BlockQ50>(values, importance, out, [spread](Values x, Values weights) {
    BlockQ50 block;
    uint8_t q[kGroup32];
    block.d = ScaleToHalf(FitScale({x, weights, spread}, kLevels, q));
    PackNibbles(q, block.qs);
    PackFifthBits(q, block.qh);
    return block;
  });
}

void DecodeQ50Ref(std::span<const std::byte> blocks, std::span<float> out) {
  DecodeBlocks<BlockQ50>(blocks, out, DecodeBlock);
}

}  // namespace quant
