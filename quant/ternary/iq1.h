// Shared by iq1_s and iq1_m: eight values are one of 2048 points of -1, 0 and 1, all moved up or
// down by 1/8, times a scale.
#pragma once

#include <array>
#include <cstdint>

#include "quant/blocks.h"
#include "quant/grids/grid.h"
#include "quant/k_quants/k_bits.h"
#include "quant/search/k_search.h"

namespace quant {

inline constexpr size_t kIq1Run = 8;  // values of a point

// What the levels 0, 1 and 2 stand for.
using Iq1Values = std::array<float, Grid8::kLevels>;
inline constexpr std::array<Iq1Values, 2> kIq1Values = {
    {{-1 + 0.125f, 0.125f, 1 + 0.125f}, {-1 - 0.125f, -0.125f, 1 - 0.125f}}};

// Bit k: the k-th run of eight values of a group is moved down. Without the bit it is moved up.
using Iq1Shifts = unsigned;
inline const Iq1Values& Iq1ValuesOf(Iq1Shifts shifts, size_t run) {
  return kIq1Values[shifts >> run & 1];
}

// A group of 32 or 16 values as it is stored. If the search found nothing, it has point 0, no shift
// and scale 0.
struct Iq1Group {
  float scale = 0;
  Iq1Shifts shifts = 0;
  std::array<uint16_t, 4> numbers{};  // of the points, one for each run
};

// A split of the values of a group in ascending order: the first `low` have level 0, those from
// `high` on level 2.
struct Iq1Split {
  bool found = false;
  size_t low = 0, high = 0;
  Iq1Shifts shifts = 0;
  float scale = 0, gain = 0;  // gain: the squared error that the scale saves

  // Adopts a split if its sums of w * value * x and w * value^2 are better.
  void Try(float qx, float qq, size_t tried_low, size_t tried_high, Iq1Shifts tried_shifts);
};

// The order of a group's values: ascending, equal ones by position, NaN last. ggml sorts with
// qsort, which keeps the order of equal values in glibc.
using Iq1Order = std::array<uint8_t, 32>;
Iq1Order Iq1OrderOf(Values values);

// Makes the stored group of the best split: levels, points, and the scale fitted to the points if
// levels were not a point.
Iq1Group MakeIq1Group(const WeightedGroup& group, const Iq1Order& order, const Iq1Split& split);

// Returns the neighbour of a cell with the smallest error at the scale, packed as in points.h; the
// first neighbour if no error is a number.
uint16_t NearestIq1Neighbour(size_t cell, Values values, Values weights, float scale,
                             const Iq1Values& stands_for);

// The largest of the scales, as ggml's MAX finds it.
float LargestIq1Scale(Values scales);

// The level stored for a group's scale, which is 2 * level + 1 in units of the block's.
int Iq1ScaleLevel(float scale, float inverse);

// The values of the points as bytes, eight each.
using Iq1Bytes = std::array<int8_t, kIq1Run>;
std::span<const Iq1Bytes> Iq1PointBytes();

// Decodes the point `number` into eight values.
void DecodeIq1Run(size_t number, bool down, float scale, float* out);

}  // namespace quant
