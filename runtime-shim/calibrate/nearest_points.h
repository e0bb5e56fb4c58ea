// The points of a code book that are nearest to targets, where errors of the values of a point
// count together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "quant/point_grids.h"
#include "runtime-shim/cpu/panels.h"

namespace moepack::runtime {

// The largest points have this many values.
inline constexpr size_t kMostOfPoint = 8;
// Costs of points are those of their halves of this many values, and of both together.
inline constexpr size_t kHalfOfPoint = 4;

// A code book as the search reads it. Borrows the codes.
struct PointBook {
  explicit PointBook(const quant::PointGrid& grid);

  size_t size = 0;                      // values of a point: one or two halves
  std::span<const float> codes;         // [points, size]
  std::vector<float> first_halves;      // those that occur, [halves, kHalfOfPoint]
  std::vector<uint16_t> first_half_of;  // by point
};

// Targets for kPanelColumns points. An error e of a point's values costs e `costs` e'. The values
// of point p are scale * sign_i * codes[p][i].
struct PointTargets {
  const float* wanted = nullptr;  // [size, kPanelColumns]
  const float* signs = nullptr;   // 1 or -1, [size, kPanelColumns]
  const float* scales = nullptr;  // [kPanelColumns]
  const float* costs = nullptr;   // [size, size], symmetric
};

// The cheapest point of each target; of equally cheap ones the first. All instruction sets choose
// the same.
void NearestPoints(const PointBook& book, const PointTargets& targets, uint16_t* chosen);
void NearestPointsRef(const PointBook& book, const PointTargets& targets, uint16_t* chosen);

}  // namespace moepack::runtime
