// The search structure of a code book (points.h). An encoder rounds values to levels. Most
// combinations of levels are not points of the grid, so the points near them are tried. Which
// points those are, and their order, is part of the formats: the first of equally good points is
// taken.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace quant {

// Points of kSize values of kLevels levels, packed with kBits bits each.
template <size_t kSizeOf, unsigned kBitsOf, size_t kLevelsOf>
class GridOf {
 public:
  static constexpr size_t kSize = kSizeOf, kLevels = kLevelsOf;
  static constexpr unsigned kBits = kBitsOf;
  // Every combination of levels is a cell, numbered by the levels as digits, the first value
  // lowest.
  static constexpr size_t kCells = [] {
    size_t cells = 1;
    for (size_t i = 0; i < kSizeOf; ++i) cells *= kLevelsOf;
    return cells;
  }();
  // Lists of neighbours are padded to whole vectors of this many; the last neighbour is repeated.
  static constexpr size_t kNeighbourStep = 8;

  using Levels = std::array<uint8_t, kSize>;

  // The neighbours of a cell are the points at its `rings` smallest distances from it, nearest
  // first; points at the same distance are ordered by number. Source: iq2xs_init_impl and
  // iq3xs_init_impl of ggml. `points` must outlive the grid.
  GridOf(std::span<const uint16_t> points, size_t rings);

  static uint8_t LevelOf(uint16_t point, size_t i) {
    return static_cast<uint8_t>(point >> kBits * i & ((1u << kBits) - 1));
  }
  static Levels LevelsOf(uint16_t point);
  static size_t CellOf(const Levels& levels);

  std::span<const uint16_t> points() const { return points_; }
  // The number of the point with these levels; -1 if the grid has none.
  int PointIn(size_t cell) const { return point_in_[cell]; }
  // For kernels, by cell: the packed point. For a cell that is not a point: the complement of where
  // its neighbours start, in units of kNeighbourStep, shifted left by kVectorBits, and how many
  // such units its list fills.
  const int32_t* entries() const { return entries_.data(); }
  static constexpr unsigned kVectorBits = 8;
  const uint16_t* all_neighbours() const { return neighbours_.data(); }
  // The neighbours of a cell, as packed points; none for a cell that is a point. The list is padded
  // up to a multiple of kNeighbourStep.
  std::span<const uint16_t> NeighboursOf(size_t cell) const {
    return std::span(neighbours_).subspan(first_[cell], count_[cell]);
  }

 private:
  void AddNeighbours(const Levels& cell, size_t rings);

  std::span<const uint16_t> points_;
  std::vector<int16_t> point_in_;     // by cell
  std::vector<uint32_t> first_;       // by cell, into neighbours_
  std::vector<uint16_t> count_;       // by cell
  std::vector<uint16_t> neighbours_;  // packed points
  std::vector<int32_t> entries_;      // by cell
};

using Grid8 = GridOf<8, 2, 3>;
using Grid4 = GridOf<4, 3, 8>;

// Each grid is made when it is first asked for; any thread may ask.
const Grid8& Iq2XxsGrid();
const Grid8& Iq2XsGrid();
const Grid8& Iq2SGrid();
const Grid8& Iq1Grid();
const Grid4& Iq3XxsGrid();
const Grid4& Iq3SGrid();

}  // namespace quant
