#include "quant/grids/grid_values.h"
#include "quant/grids/iq3_xxs.h"
#include "quant/grids/points.h"
#include "quant/half.h"

namespace quant {
namespace {

constexpr size_t kGroups = kSuperBlock / kIq3XxsRules.group_values;
constexpr size_t kGroupPoints = 8;

BlockIq3Xxs EncodeBlock(Values values, Values importance) {
  return PackIq3Xxs(FitGridBlock(kIq3XxsRules, Iq3XxsGrid(), values, importance));
}

void DecodeBlock(const BlockIq3Xxs& block, std::span<float> out) {
  for (size_t j = 0; j < kGroups; ++j) {
    const uint32_t word = SignWord::Load(block.words + 4 * j);
    const float level = static_cast<float>(SignWord::Scale(word));
    // The products are taken in the order of dequantize_row_iq3_xxs (ggml-quants.c), so that each
    // float has the same bits.
    const float scale = HalfToFloat(block.d) * (0.5f + level) * 0.5f;
    for (size_t k = 0; k < kGroupPoints; ++k) {
      const size_t at = kGroupPoints * j + k;
      DecodeGridPoint<Grid4>(kIq3XxsPoints[block.qs[at]], kIq3XxsValues,
                             SignWord::Signs(word, k / 2) >> k % 2 * 4, scale, out.data() + 4 * at);
    }
  }
}

}  // namespace

BlockIq3Xxs PackIq3Xxs(const GridBlock& fit) {
  BlockIq3Xxs block{};
  if (fit.empty) return block;
  block.d = fit.d;
  for (size_t k = 0; k < kGroups * kGroupPoints; ++k) {
    block.qs[k] = static_cast<uint8_t>(fit.numbers[k]);
  }
  for (size_t j = 0; j < kGroups; ++j) SignWord::Store(fit, j, block.words + 4 * j);
  return block;
}

void EncodeIq3XxsRef(Values values, Values importance, std::span<std::byte> out) {
  EncodeBlocks<BlockIq3Xxs>(values, importance, out, EncodeBlock);
}

void DecodeIq3XxsRef(std::span<const std::byte> blocks, std::span<float> out) {
  DecodeBlocks<BlockIq3Xxs>(blocks, out, DecodeBlock);
}

}  // namespace quant
