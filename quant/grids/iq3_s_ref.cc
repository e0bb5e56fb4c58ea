#include <algorithm>

#include "quant/grids/grid_values.h"
#include "quant/grids/iq3_s.h"
#include "quant/grids/points.h"
#include "quant/half.h"

namespace quant {
namespace {

constexpr size_t kPoints = kSuperBlock / 4;
constexpr size_t kGroupPoints = 8;

BlockIq3S EncodeBlock(Values values, Values importance) {
  return PackIq3S(FitGridBlock(kIq3SRules, Iq3SGrid(), values, importance));
}

void DecodeBlock(const BlockIq3S& block, std::span<float> out) {
  for (size_t k = 0; k < kPoints; ++k) {
    const unsigned level = HalfByteOf(block.scales, k / kGroupPoints);
    // The products are taken in the order of dequantize_row_iq3_s (ggml-quants.c), so that each
    // float has the same bits.
    const float scale = HalfToFloat(block.d) * static_cast<float>(1 + 2 * level);
    const unsigned number = block.qs[k] | (block.qh[k / 8] >> k % 8 & 1u) << 8;
    DecodeGridPoint<Grid4>(kIq3SPoints[number], kIq3SValues,
                           unsigned{block.signs[k / 2]} >> k % 2 * 4, scale, out.data() + 4 * k);
  }
}

}  // namespace

// A block without a scale keeps its points and signs, as in iq2_s. A group of zeros leaves no gap
// in qs and signs, as in ggml, whose encoder does not advance past the group's bytes there. Those
// of the following groups move up, and only their bits of qh are where a decoder looks for them.
BlockIq3S PackIq3S(const GridBlock& fit) {
  BlockIq3S block{};
  block.d = fit.d;
  size_t written = 0;
  for (size_t j = 0; j < kSuperBlock / kIq3SRules.group_values; ++j) {
    if ((fit.zero_groups >> j & 1) != 0) continue;
    for (size_t k = 0; k < kGroupPoints; ++k) {
      const unsigned number = fit.numbers[kGroupPoints * j + k];
      block.qs[kGroupPoints * written + k] = static_cast<uint8_t>(number);
      block.qh[j] |= static_cast<uint8_t>(number >> 8 << k);
    }
    std::copy_n(fit.signs.begin() + static_cast<ptrdiff_t>(4 * j), 4, block.signs + 4 * written);
    ++written;
  }
  PackHalfBytes(fit.scales, block.scales);
  return block;
}

void EncodeIq3SRef(Values values, Values importance, std::span<std::byte> out) {
  EncodeBlocks<BlockIq3S>(values, importance, out, EncodeBlock);
}

void DecodeIq3SRef(std::span<const std::byte> blocks, std::span<float> out) {
  DecodeBlocks<BlockIq3S>(blocks, out, DecodeBlock);
}

}  // namespace quant
