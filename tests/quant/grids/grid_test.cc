#include "quant/grids/grid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "quant/grids/points.h"

namespace quant {
namespace {

template <class Grid>
typename Grid::Levels LevelsIn(size_t cell) {
  typename Grid::Levels levels;
  for (uint8_t& level : levels) {
    level = static_cast<uint8_t>(cell % Grid::kLevels);
    cell /= Grid::kLevels;
  }
  return levels;
}

// All points by distance and number, up to the end of the ring.
template <class Grid>
std::vector<uint16_t> SortedNeighbours(const Grid& grid, size_t cell, size_t rings) {
  const auto levels = LevelsIn<Grid>(cell);
  std::vector<std::pair<int, size_t>> sorted;
  for (size_t number = 0; number < grid.points().size(); ++number) {
    int distance = 0;
    for (size_t i = 0; i < Grid::kSize; ++i) {
      const int difference = Grid::LevelOf(grid.points()[number], i) - levels[i];
      distance += difference * difference;
    }
    sorted.emplace_back(distance, number);
  }
  std::sort(sorted.begin(), sorted.end());
  std::vector<uint16_t> neighbours;
  size_t ring = 1;
  for (size_t k = 0; k < sorted.size(); ++k) {
    if (k > 0 && sorted[k].first != sorted[k - 1].first && ++ring > rings) break;
    neighbours.push_back(grid.points()[sorted[k].second]);
  }
  return neighbours;
}

template <class Grid>
void CheckGrid(const Grid& grid, size_t rings) {
  for (size_t number = 0; number < grid.points().size(); ++number) {
    const size_t cell = Grid::CellOf(Grid::LevelsOf(grid.points()[number]));
    ASSERT_EQ(grid.PointIn(cell), static_cast<int>(number));
    ASSERT_TRUE(grid.NeighboursOf(cell).empty());
  }
  for (size_t cell = 0; cell < Grid::kCells; cell += 7) {
    ASSERT_EQ(Grid::CellOf(LevelsIn<Grid>(cell)), cell);
    if (grid.PointIn(cell) >= 0) continue;
    const std::span<const uint16_t> found = grid.NeighboursOf(cell);
    ASSERT_EQ(std::vector(found.begin(), found.end()), SortedNeighbours(grid, cell, rings))
        << "cell " << cell;
    // What fills the last vector.
    const size_t room =
        (found.size() + Grid::kNeighbourStep - 1) / Grid::kNeighbourStep * Grid::kNeighbourStep;
    for (size_t i = found.size(); i < room; ++i) ASSERT_EQ(found.data()[i], found.back());
  }
}

TEST(Grid, ListsThePointsOfTheNearestRingsInOrder) {
  CheckGrid(Iq2XxsGrid(), 2);
  CheckGrid(Iq2XsGrid(), 2);
  CheckGrid(Iq2SGrid(), 1);
  CheckGrid(Iq1Grid(), 3);
  CheckGrid(Iq3XxsGrid(), 2);
  CheckGrid(Iq3SGrid(), 3);
}

TEST(Grid, HasOnlyLevelsInRange) {
  for (const Grid8* grid : {&Iq2XxsGrid(), &Iq2XsGrid(), &Iq2SGrid(), &Iq1Grid()}) {
    for (const uint16_t point : grid->points()) {
      for (const uint8_t level : Grid8::LevelsOf(point)) ASSERT_LT(level, Grid8::kLevels);
    }
  }
}

}  // namespace
}  // namespace quant
