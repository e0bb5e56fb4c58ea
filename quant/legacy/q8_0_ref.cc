#include <algorithm>
#include <cmath>

#include "quant/blocks.h"
#include "quant/half.h"
#include "quant/legacy/q8_0.h"
#include "quant/rounding.h"

namespace quant {
namespace {

// The largest magnitude gets 127, and halves are rounded away from zero. A subnormal scale has an
// infinite inverse, so no product fits an integer, and all become 0.
BlockQ80 EncodeBlock(Values values, Values) {
  float largest = 0;
  for (const float x : values) largest = std::max(largest, std::abs(x));
  const float d = largest / 127.0f;
  const float inverse = d != 0 ? 1.0f / d : 0.0f;
  BlockQ80 block;
  block.d = ScaleToHalf(d);
  for (size_t i = 0; i < kGroup32; ++i) {
    block.qs[i] = static_cast<int8_t>(Truncate(std::round(values[i] * inverse)));
  }
  return block;
}

void DecodeBlock(const BlockQ80& block, std::span<float> out) {
  const float d = HalfToFloat(block.d);
  for (size_t i = 0; i < kGroup32; ++i) out[i] = static_cast<float>(block.qs[i]) * d;
}

}  // namespace

void EncodeQ80Ref(Values values, Values importance, std::span<std::byte> out) {
  EncodeBlocks<BlockQ80>(values, importance, out, EncodeBlock);
}

void DecodeQ80Ref(std::span<const std::byte> blocks, std::span<float> out) {
  DecodeBlocks<BlockQ80>(blocks, out, DecodeBlock);
}

}  // namespace quant
