// The grid of a block whose scales are chosen: the integers that its values may take, apart from
// the search that chooses them in the encoders. Encoding with error feedback chooses its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "quant/format.h"

namespace quant {

// The values of a block are base + scale * code(level), with base and scale of its own for each
// value. A type has a grid if each value's level can be chosen alone.
struct LevelGrid {
  uint32_t count = 0;  // levels are 0 ... count - 1
  // The code of each level in any order, for types with a table; empty: the level itself.
  std::span<const float> codes = {};
  // Replaces the levels of a block and keeps its scales. `levels` has one for each value of the
  // block.
  void (*put)(std::span<const uint8_t> levels, std::span<std::byte> block) = nullptr;
};

// Null for a type whose levels depend on each other, or that has none.
const LevelGrid* FindGrid(const Format& format);

}  // namespace quant
