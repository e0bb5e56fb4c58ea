#include <algorithm>
#include <bit>
#include <cmath>

#include "quant/blocks.h"
#include "quant/search/k_search.h"
#include "quant/tables/fp4.h"
#include "quant/tables/nvfp4.h"

namespace quant {
namespace {

constexpr size_t kGroupValuesNvfp4 = BlockNvfp4::kGroupValues;
constexpr size_t kHalfGroup = kGroupValuesNvfp4 / 2;
constexpr uint8_t kLargestScale = 0x7e;  // 448
constexpr float kTooLarge = 248;         // rounds to 256, from which on ggml uses it

BlockNvfp4 EncodeBlockNvfp4(Values values, Values) {
  BlockNvfp4 block;
  for (size_t g = 0; g < BlockNvfp4::kGroups; ++g) {
    const Values group = values.subspan(g * kGroupValuesNvfp4, kGroupValuesNvfp4);
    block.d[g] = Nvfp4ScaleFor(std::abs(LargestByMagnitude(group)));
    const float scale = HalfOfUnsignedE4M3(block.d[g]);
    for (size_t j = 0; j < kHalfGroup; ++j) {
      const unsigned low = NearestFp4Code(group[j], scale);
      const unsigned high = NearestFp4Code(group[j + kHalfGroup], scale);
      block.qs[g * kHalfGroup + j] = static_cast<uint8_t>(low | high << 4);
    }
  }
  return block;
}

void DecodeBlockNvfp4(const BlockNvfp4& block, std::span<float> out) {
  for (size_t g = 0; g < BlockNvfp4::kGroups; ++g) {
    const float scale = HalfOfUnsignedE4M3(block.d[g]);
    for (size_t j = 0; j < kHalfGroup; ++j) {
      const unsigned both = block.qs[g * kHalfGroup + j];
      out[g * kGroupValuesNvfp4 + j] = kFp4Codes[both & 15] * scale;
      out[g * kGroupValuesNvfp4 + j + kHalfGroup] = kFp4Codes[both >> 4] * scale;
    }
  }
}

}  // namespace

float HalfOfUnsignedE4M3(uint8_t scale) {
  if (scale == 0x7f) return 0;
  const unsigned exponent = scale >> 3 & 15u, mantissa = scale & 7u;
  if (exponent == 0) return static_cast<float>(mantissa) * 0x1p-10f;
  // (8 + mantissa) / 8 * 2^(exponent - 7), halved.
  return std::bit_cast<float>((exponent + 127 - 7 - 1) << 23 | mantissa << 20);
}

uint8_t Nvfp4ScaleFor(float largest) {
  const float wanted = largest / 6;
  if (!(wanted > 0)) return 0;
  if (wanted >= kTooLarge) return kLargestScale;
  if (wanted < 0x1p-6f) {  // multiples of 2^-9; never rounded up to the smallest normal scale
    return static_cast<uint8_t>(std::min(static_cast<int>(wanted * 512 + 0.5f), 7));
  }
  // The three bits below the exponent, with halves rounded up into them or carried into the
  // exponent.
  const uint32_t bits = std::bit_cast<uint32_t>(wanted) - ((127u - 7) << 23) + (1u << 19);
  return static_cast<uint8_t>(bits >> 20);
}

void EncodeNvfp4Ref(Values values, Values importance, std::span<std::byte> out) {
  EncodeBlocks<BlockNvfp4>(values, importance, out, EncodeBlockNvfp4);
}

void DecodeNvfp4Ref(std::span<const std::byte> blocks, std::span<float> out) {
  DecodeBlocks<BlockNvfp4>(blocks, out, DecodeBlockNvfp4);
}

}  // namespace quant
