#include "quant/grids/grid_values.h"
#include "quant/grids/iq2_xxs.h"
#include "quant/grids/points.h"
#include "quant/half.h"

namespace quant {
namespace {

constexpr size_t kGroups = kSuperBlock / kIq2XxsRules.group_values;
constexpr size_t kGroupPoints = 4;
constexpr size_t kGroupBytes = 8;

BlockIq2Xxs EncodeBlock(Values values, Values importance) {
  return PackIq2Xxs(FitGridBlock(kIq2XxsRules, Iq2XxsGrid(), values, importance));
}

void DecodeBlock(const BlockIq2Xxs& block, std::span<float> out) {
  for (size_t j = 0; j < kGroups; ++j) {
    const uint8_t* numbers = block.qs + kGroupBytes * j;
    const uint32_t word = SignWord::Load(numbers + kGroupPoints);
    // The products are taken in the order of dequantize_row_iq2_xxs (ggml-quants.c), so that each
    // float has the same bits.
    const float scale = HalfToFloat(block.d) * (0.5f + static_cast<float>(SignWord::Scale(word)));
    for (size_t k = 0; k < kGroupPoints; ++k) {
      DecodeGridPoint<Grid8>(kIq2XxsPoints[numbers[k]], kIq2Values, SignWord::Signs(word, k),
                             scale * 0.25f, out.data() + 8 * (kGroupPoints * j + k));
    }
  }
}

}  // namespace

BlockIq2Xxs PackIq2Xxs(const GridBlock& fit) {
  BlockIq2Xxs block{};
  if (fit.empty) return block;
  block.d = fit.d;
  for (size_t j = 0; j < kGroups; ++j) {
    uint8_t* const numbers = block.qs + kGroupBytes * j;
    for (size_t k = 0; k < kGroupPoints; ++k) {
      numbers[k] = static_cast<uint8_t>(fit.numbers[kGroupPoints * j + k]);
    }
    SignWord::Store(fit, j, numbers + kGroupPoints);
  }
  return block;
}

void EncodeIq2XxsRef(Values values, Values importance, std::span<std::byte> out) {
  EncodeBlocks<BlockIq2Xxs>(values, importance, out, EncodeBlock);
}

void DecodeIq2XxsRef(std::span<const std::byte> blocks, std::span<float> out) {
  DecodeBlocks<BlockIq2Xxs>(blocks, out, DecodeBlock);
}

}  // namespace quant
