#include "quant/grids/grid_values.h"
#include "quant/grids/iq2_xs.h"
#include "quant/grids/points.h"
#include "quant/half.h"

namespace quant {
namespace {

constexpr unsigned kNumberBits = 9;

BlockIq2Xs EncodeBlock(Values values, Values importance) {
  return PackIq2Xs(FitGridBlock(kIq2XsRules, Iq2XsGrid(), values, importance));
}

void DecodeBlock(const BlockIq2Xs& block, std::span<float> out) {
  for (size_t k = 0; k < kSuperBlock / 8; ++k) {
    const float level = static_cast<float>(HalfByteOf(block.scales, k / 2));
    // The products are taken in the order of dequantize_row_iq2_xs (ggml-quants.c), so that each
    // float has the same bits.
    const float scale = HalfToFloat(block.d) * (0.5f + level) * 0.25f;
    const unsigned number = block.qs[k] & ((1u << kNumberBits) - 1);
    DecodeGridPoint<Grid8>(kIq2XsPoints[number], kIq2Values, EightSigns(block.qs[k] >> kNumberBits),
                           scale, out.data() + 8 * k);
  }
}

}  // namespace

BlockIq2Xs PackIq2Xs(const GridBlock& fit) {
  BlockIq2Xs block{};
  // ggml clears a block before it searches a scale, so one without a scale stays all zero.
  if (fit.empty) return block;
  block.d = fit.d;
  for (size_t k = 0; k < kSuperBlock / 8; ++k) {
    // Seven signs are enough: the search keeps the number of negative values even, so the eighth
    // sign follows from the others.
    block.qs[k] = static_cast<uint16_t>(fit.numbers[k] | SevenSigns(fit.signs[k]) << kNumberBits);
  }
  PackHalfBytes(fit.scales, block.scales);
  return block;
}

void EncodeIq2XsRef(Values values, Values importance, std::span<std::byte> out) {
  EncodeBlocks<BlockIq2Xs>(values, importance, out, EncodeBlock);
}

void DecodeIq2XsRef(std::span<const std::byte> blocks, std::span<float> out) {
  DecodeBlocks<BlockIq2Xs>(blocks, out, DecodeBlock);
}

}  // namespace quant
