// The grid of a block whose scales are chosen, for types whose values are points of a code book:
// several values at once, and their signs. levels.h has the types whose values are chosen alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "quant/format.h"

namespace quant {

// The values that share a byte of signs, and that any point of a type divides.
inline constexpr size_t kPointRun = 8;

enum class PointSigns : uint8_t {
  kNone,  // points have signs of their own
  kEach,  // of every value
  kEven,  // of every value, but an even number of a run is negative
};

// The values of a point are base + scale * code, times their signs, with base and scale of its own
// for each point.
struct PointGrid {
  size_t size = 0;  // values of a point
  // [points, size]; all are lowest in the first point, and, without signs, highest in the last.
  std::span<const float> codes;
  PointSigns signs = PointSigns::kNone;
  // Replaces the points and signs of a block and keeps its scales. `points` has one for each `size`
  // values of the block, `signs` one byte for each run: bit i is value i, 1 is a minus.
  void (*put)(std::span<const uint16_t> points, std::span<const uint8_t> signs,
              std::span<std::byte> block) = nullptr;

  size_t count() const { return codes.size() / size; }
};

// Null for a type without a code book.
const PointGrid* FindPointGrid(const Format& format);

}  // namespace quant
