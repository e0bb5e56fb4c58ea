#include <algorithm>

#include "quant/grids/grid_values.h"
#include "quant/grids/iq2_s.h"
#include "quant/grids/points.h"
#include "quant/half.h"

namespace quant {
namespace {

constexpr size_t kPoints = kSuperBlock / 8;

BlockIq2S EncodeBlock(Values values, Values importance) {
  return PackIq2S(FitGridBlock(kIq2SRules, Iq2SGrid(), values, importance));
}

void DecodeBlock(const BlockIq2S& block, std::span<float> out) {
  for (size_t k = 0; k < kPoints; ++k) {
    const float level = static_cast<float>(HalfByteOf(block.scales, k / 2));
    // The products are taken in the order of dequantize_row_iq2_s (ggml-quants.c), so that each
    // float has the same bits.
    const float scale = HalfToFloat(block.d) * (0.5f + level) * 0.25f;
    const unsigned number = block.qs[k] | (block.qh[k / 4] >> k % 4 * 2 & 3u) << 8;
    DecodeGridPoint<Grid8>(kIq2SPoints[number], kIq2Values, block.signs[k], scale,
                           out.data() + 8 * k);
  }
}

}  // namespace

// Unlike the types with seven signs, ggml keeps the points and signs of a block without a scale.
BlockIq2S PackIq2S(const GridBlock& fit) {
  BlockIq2S block{};
  block.d = fit.d;
  for (size_t k = 0; k < kPoints; ++k) {
    block.qs[k] = static_cast<uint8_t>(fit.numbers[k]);
    block.qh[k / 4] |= static_cast<uint8_t>(fit.numbers[k] >> 8 << k % 4 * 2);
  }
  std::copy(fit.signs.begin(), fit.signs.end(), block.signs);
  PackHalfBytes(fit.scales, block.scales);
  return block;
}

void EncodeIq2SRef(Values values, Values importance, std::span<std::byte> out) {
  EncodeBlocks<BlockIq2S>(values, importance, out, EncodeBlock);
}

void DecodeIq2SRef(std::span<const std::byte> blocks, std::span<float> out) {
  DecodeBlocks<BlockIq2S>(blocks, out, DecodeBlock);
}

}  // namespace quant
