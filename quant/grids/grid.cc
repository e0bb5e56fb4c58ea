#include "quant/grids/grid.h"

#include <algorithm>

#include "quant/grids/points.h"

namespace quant {
namespace {

// Squared distances in units of one level are at most this: eight values by two levels, or four by
// seven.
constexpr size_t kMaxDistance = 4 * 7 * 7;

}  // namespace

template <size_t kSizeOf, unsigned kBitsOf, size_t kLevelsOf>
GridOf<kSizeOf, kBitsOf, kLevelsOf>::GridOf(std::span<const uint16_t> points, size_t rings)
    : points_(points),
      point_in_(kCells, -1),
      first_(kCells, 0),
      count_(kCells, 0),
      entries_(kCells) {
  for (size_t number = 0; number < points.size(); ++number) {
    point_in_[CellOf(LevelsOf(points[number]))] = static_cast<int16_t>(number);
  }
  Levels levels{};
  for (size_t cell = 0; cell < kCells; ++cell) {
    first_[cell] = static_cast<uint32_t>(neighbours_.size());
    if (point_in_[cell] < 0) {
      AddNeighbours(levels, rings);
      count_[cell] = static_cast<uint16_t>(neighbours_.size() - first_[cell]);
      while (neighbours_.size() % kNeighbourStep != 0) neighbours_.push_back(neighbours_.back());
    }
    const size_t vectors = (neighbours_.size() - first_[cell]) / kNeighbourStep;
    const size_t list = first_[cell] / kNeighbourStep << kVectorBits | vectors;
    entries_[cell] = point_in_[cell] >= 0 ? points[static_cast<size_t>(point_in_[cell])]
                                          : ~static_cast<int32_t>(list);
    // Counts up, the first digit fastest.
    for (size_t i = 0; i < kSize && ++levels[i] == kLevels; ++i) levels[i] = 0;
  }
}

template <size_t kSizeOf, unsigned kBitsOf, size_t kLevelsOf>
typename GridOf<kSizeOf, kBitsOf, kLevelsOf>::Levels GridOf<kSizeOf, kBitsOf, kLevelsOf>::LevelsOf(
    uint16_t point) {
  Levels levels;
  for (size_t i = 0; i < kSize; ++i) levels[i] = LevelOf(point, i);
  return levels;
}

template <size_t kSizeOf, unsigned kBitsOf, size_t kLevelsOf>
size_t GridOf<kSizeOf, kBitsOf, kLevelsOf>::CellOf(const Levels& levels) {
  size_t cell = 0;
  for (size_t i = kSize; i-- > 0;) cell = cell * kLevels + levels[i];
  return cell;
}

template <size_t kSizeOf, unsigned kBitsOf, size_t kLevelsOf>
void GridOf<kSizeOf, kBitsOf, kLevelsOf>::AddNeighbours(const Levels& cell, size_t rings) {
  // The square of each difference of levels, packed like a point's levels: by value and level.
  std::array<std::array<uint8_t, size_t{1} << kBits>, kSize> squares{};
  for (size_t i = 0; i < kSize; ++i) {
    for (size_t level = 0; level < kLevels; ++level) {
      const int difference = static_cast<int>(level) - cell[i];
      squares[i][level] = static_cast<uint8_t>(difference * difference);
    }
  }
  std::vector<uint8_t> distances(points_.size());
  std::array<bool, kMaxDistance + 1> present{};
  for (size_t number = 0; number < points_.size(); ++number) {
    uint8_t distance = 0;
    for (size_t i = 0; i < kSize; ++i) {
      distance = static_cast<uint8_t>(distance + squares[i][LevelOf(points_[number], i)]);
    }
    distances[number] = distance;
    present[distance] = true;
  }
  for (size_t distance = 0; distance < present.size() && rings > 0; ++distance) {
    if (!present[distance]) continue;
    --rings;
    for (size_t number = 0; number < points_.size(); ++number) {
      if (distances[number] == distance) neighbours_.push_back(points_[number]);
    }
  }
}

template class GridOf<8, 2, 3>;
template class GridOf<4, 3, 8>;

// The numbers of rings are ggml's `nwant`.
const Grid8& Iq2XxsGrid() {
  static const Grid8 grid(kIq2XxsPoints, 2);
  return grid;
}

const Grid8& Iq2XsGrid() {
  static const Grid8 grid(kIq2XsPoints, 2);
  return grid;
}

const Grid8& Iq2SGrid() {
  static const Grid8 grid(kIq2SPoints, 1);
  return grid;
}

const Grid8& Iq1Grid() {
  static const Grid8 grid(kIq1Points, 3);
  return grid;
}

const Grid4& Iq3XxsGrid() {
  static const Grid4 grid(kIq3XxsPoints, 2);
  return grid;
}

const Grid4& Iq3SGrid() {
  static const Grid4 grid(kIq3SPoints, 3);
  return grid;
}

}  // namespace quant
