#include "quant/blocks.h"
#include "quant/half.h"
#include "quant/q4_1.h"
#include "quant/scale32.h"

namespace quant {
namespace {

constexpr int kLevels = 15;

void DecodeBlock(const BlockQ41& block, std::span<float> out) {
  uint8_t q[kGroup32];
  UnpackNibbles(block.qs, q);
  const float d = HalfToFloat(block.d);
  const float m = HalfToFloat(block.m);
  for (size_t i = 0; i < kGroup32; ++i) out[i] = static_cast<float>(q[i]) * d + m;
}

}  // namespace

void EncodeQ41Ref(Values values, Values importance, std::span<std::byte> out) {
  const float spread = SpreadOfRow(values, importance);
  EncodeBlocks<BlockQ41>(values, importance, out, [spread](Values x, Values weights) {
    BlockQ41 block;
    uint8_t q[kGroup32];
    const ScaleAndMin fit = FitRange({x, weights, spread}, kLevels, q);
    block.d = ScaleToHalf(fit.scale);
    block.m = ScaleToHalf(fit.min);
    PackNibbles(q, block.qs);
    return block;
  });
}

void DecodeQ41Ref(std::span<const std::byte> blocks, std::span<float> out) {
  DecodeBlocks<BlockQ41>(blocks, out, DecodeBlock);
}

}  // namespace quant
