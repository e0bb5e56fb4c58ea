// Products of one token with weights in their blocks: the values go from registers into the sums,
// without a decoded copy. For types whose decoding would otherwise take most of a token's time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/format.h"

namespace moepack::runtime {

// The types that have a kernel, as the code of one instruction set distinguishes them.
enum class BlockType : uint8_t { kOther, kF32, kF16, kBf16, kQ80, kQ4K, kQ5K, kQ6K };

struct BlockProduct {
  const std::byte* blocks = nullptr;  // of the first row
  size_t row_bytes = 0;
  uint32_t rows = 0, columns = 0;
  const float* x = nullptr;
  float* y = nullptr;
};
// y[r] = row r . x, with the bits of MultiplyRows (dots.h) on decoded weights. False, with nothing
// done, for types and machines without such a kernel.
bool MultiplyBlocks(const quant::Format* format, const BlockProduct& product);

}  // namespace moepack::runtime
