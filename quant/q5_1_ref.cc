#include "quant/blocks.h"
#include "quant/half.h"
#include "quant/q5_1.h"
#include "quant/scale32.h"

namespace quant {
namespace {

constexpr int kLevels = 31;

void DecodeBlock(const BlockQ51& block, std::span<float> out) {
  uint8_t q[kGroup32];
  UnpackNibbles(block.qs, q);
  AddFifthBits(block.qh, q);
  const float d = HalfToFloat(block.d);
  const float m = HalfToFloat(block.m);
  for (size_t i = 0; i < kGroup32; ++i) out[i] = static_cast<float>(q[i]) * d + m;
}

}  // namespace

void EncodeQ51Ref(Values values, Values importance, std::span<std::byte> out) {
  const float spread = SpreadOfRow(values, importance);
  EncodeBlocks<BlockQ51>(values, importance, out, [spread](Values x, Values weights) {
    BlockQ51 block;
    uint8_t q[kGroup32];
    const ScaleAndMin fit = FitRange({x, weights, spread}, kLevels, q);
    block.d = ScaleToHalf(fit.scale);
    block.m = ScaleToHalf(fit.min);
    PackNibbles(q, block.qs);
    PackFifthBits(q, block.qh);
    return block;
  });
}

void DecodeQ51Ref(std::span<const std::byte> blocks, std::span<float> out) {
  DecodeBlocks<BlockQ51>(blocks, out, DecodeBlock);
}

}  // namespace quant
