#include <cmath>

#include "quant/blocks.h"
#include "quant/half.h"
#include "quant/rounding.h"
#include "quant/search/k_search.h"
#include "quant/tables/fp4.h"
#include "quant/tables/mxfp4.h"

namespace quant {
namespace {

BlockMxfp4 EncodeBlock(Values values, Values) {
  BlockMxfp4 block;
  block.e = Mxfp4ExponentFor(std::abs(LargestByMagnitude(values)));
  const float scale = HalfOfE8M0(block.e);
  uint8_t q[kGroup32];
  for (size_t i = 0; i < kGroup32; ++i) q[i] = NearestFp4Code(values[i], scale);
  PackNibbles(q, block.qs);
  return block;
}

void DecodeBlock(const BlockMxfp4& block, std::span<float> out) {
  uint8_t q[kGroup32];
  UnpackNibbles(block.qs, q);
  const float scale = HalfOfE8M0(block.e);
  for (size_t i = 0; i < kGroup32; ++i) out[i] = kFp4Codes[q[i]] * scale;
}

}  // namespace

// 2 is the exponent of the largest code, 6. ggml takes the logarithm in float, which rounds up just
// below a power of two; a double logarithm that is rounded to float gives the same exponents with
// every libm. Exponents below 0, for values under 2^-125, wrap around, and all their codes are 0.
uint8_t Mxfp4ExponentFor(float largest) {
  if (!(largest > 0)) return 0;
  const auto log = static_cast<float>(std::log2(static_cast<double>(largest)));
  return static_cast<uint8_t>(Truncate(std::floor(log) - 2 + 127));
}

void EncodeMxfp4Ref(Values values, Values importance, std::span<std::byte> out) {
  EncodeBlocks<BlockMxfp4>(values, importance, out, EncodeBlock);
}

void DecodeMxfp4Ref(std::span<const std::byte> blocks, std::span<float> out) {
  DecodeBlocks<BlockMxfp4>(blocks, out, DecodeBlock);
}

}  // namespace quant
