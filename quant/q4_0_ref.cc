#include "quant/blocks.h"
#include "quant/half.h"
#include "quant/q4_0.h"
#include "quant/scale32.h"

namespace quant {
namespace {

constexpr int kLevels = 8;

void DecodeBlock(const BlockQ40& block, std::span<float> out) {
  uint8_t q[kGroup32];
  UnpackNibbles(block.qs, q);
  const float d = HalfToFloat(block.d);
  for (size_t i = 0; i < kGroup32; ++i) out[i] = static_cast<float>(q[i] - kLevels) * d;
}

}  // namespace

void EncodeQ40Ref(Values values, Values importance, std::span<std::byte> out) {
  const float spread = SpreadOfRow(values, importance);
  EncodeBlocks<BlockQ40>(values, importance, out, [spread](Values x, Values weights) {
    BlockQ40 block;
    uint8_t q[kGroup32];
    block.d = ScaleToHalf(FitScale({x, weights, spread}, kLevels, q));
    PackNibbles(q, block.qs);
    return block;
  });
}

void DecodeQ40Ref(std::span<const std::byte> blocks, std::span<float> out) {
  DecodeBlocks<BlockQ40>(blocks, out, DecodeBlock);
}

}  // namespace quant
