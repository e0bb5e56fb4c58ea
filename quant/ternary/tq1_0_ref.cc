#include "quant/blocks.h"
#include "quant/half.h"
#include "quant/ternary/tq1_0.h"

namespace quant {
namespace {

void PackTrits(const Levels& trits, BlockTq10& block) {
  for (const TritRun& run : kTritRuns) {
    for (size_t l = 0; l < run.count; ++l) {
      unsigned number = 0;
      for (size_t k = 0; k < kTritsOfByte; ++k) {
        number = number * 3 + (k < run.trits ? trits[run.first + l + k * run.count] : 0u);
      }
      block.qs[run.byte + l] = ByteOfTrits(number);
    }
  }
}

BlockTq10 EncodeBlockTq10(Values values, Values) {
  BlockTq10 block;
  Levels trits;
  block.d = ScaleToHalf(TernaryTrits(values, trits));
  PackTrits(trits, block);
  return block;
}

void DecodeBlockTq10(const BlockTq10& block, std::span<float> out) {
  const float d = HalfToFloat(block.d);
  for (const TritRun& run : kTritRuns) {
    for (size_t l = 0; l < run.count; ++l) {
      unsigned rest = block.qs[run.byte + l];
      for (size_t k = 0; k < run.trits; ++k) {
        const unsigned digits = rest * 3;
        out[run.first + l + k * run.count] =
            static_cast<float>(static_cast<int>(digits >> 8) - 1) * d;
        rest = digits & 255;
      }
    }
  }
}

}  // namespace

void EncodeTq10Ref(Values values, Values importance, std::span<std::byte> out) {
  EncodeBlocks<BlockTq10>(values, importance, out, EncodeBlockTq10);
}

void DecodeTq10Ref(std::span<const std::byte> blocks, std::span<float> out) {
  DecodeBlocks<BlockTq10>(blocks, out, DecodeBlockTq10);
}

}  // namespace quant
