// Shared by q4_0, q4_1, q5_0 and q5_1: one scale, or a scale and a minimum, for 32 values.
#pragma once

#include "quant/legacy/nibbles.h"
#include "quant/search/k_search.h"

namespace quant {

// A block of a row. Without importance nothing is searched, and the extreme values decide. With
// importance the weighted error is minimised.
struct Block32 {
  Values values, importance;
  float spread;  // mean square of the whole row, used with importance only
};

using Levels32 = std::span<uint8_t, kGroup32>;

// value = scale * (q - levels), q in 0 ... 2 * levels - 1.
float FitScale(const Block32& block, int levels, Levels32 q);

// value = scale * q + min, q in 0 ... levels.
ScaleAndMin FitRange(const Block32& block, int levels, Levels32 q);

// Returns Block32::spread for the blocks of a row; 0 without importance.
float SpreadOfRow(Values row, Values importance);

// Calls encode_block(Block32) -> Block for the blocks of all rows in order.
template <class Block, class EncodeBlock>
void EncodeRowsOf32(Values values, Values importance, std::span<std::byte> out,
                    const EncodeBlock& encode_block) {
  const size_t row = importance.empty() ? values.size() : importance.size();
  for (size_t first = 0; first < values.size(); first += row) {
    const Values of_row = values.subspan(first, row);
    const float spread = SpreadOfRow(of_row, importance);
    EncodeBlocks<Block>(
        of_row, importance,
        out.subspan(first / kGroup32 * sizeof(Block), row / kGroup32 * sizeof(Block)),
        [&](Values x, Values weights) {
          return encode_block({x, weights, spread});
        });
  }
}

}  // namespace quant
