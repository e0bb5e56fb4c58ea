// Code shared by the iq2 and iq3 types: how a super-block of 256 values is fitted to points of a
// grid. A type differs in its grid, its rules and the layout of its fields.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "quant/blocks.h"
#include "quant/grids/grid.h"
#include "quant/k_quants/k_bits.h"

namespace quant {

// The weight of an error in a value without importance; `spread` is that of GridRules.
enum class PlainWeight : uint8_t {
  kOnes,      // as with an importance of 1: ggml refuses to encode the type without importance
  kSquare,    // x^2
  kSmoothed,  // spread / 4 + x^2
};

// Which points of a group are chosen again for the scale that was found.
enum class Refit : uint8_t {
  kOffGrid,   // those whose levels were not a point of the grid
  kAllIfAny,  // all, if the levels of any were not a point
  kAlways,
};

struct GridRules {
  size_t group_values;  // that share a scale: 16 or 32
  bool even_signs;      // of eight values an even number is negative, so seven bits hold the signs
  // The weight of a value is its importance times sqrt(spread + x^2); the spread is the mean square
  // of the super-block times this.
  float spread;
  PlainWeight plain;
  float zero_limit;  // a group whose largest magnitude is below this counts as zero
  // The scales that are tried put the largest magnitude at 2 * levels - 1 + i * step for i in -last
  // ... last.
  int last;
  float step;
  // The largest magnitude is replaced by `levels` times the scale that FitPositive finds for
  // `levels` + 1 levels.
  bool positive_start;
  Refit refit;
  float factor;  // d is stored multiplied by this
};

inline constexpr size_t kSignedValues = 8;  // that share a byte of signs
inline constexpr size_t kMaxGridGroup = 32;

// The fields of a super-block, before a type puts them into its bytes.
struct GridBlock {
  bool empty = true;                   // no group has a scale; ggml then leaves d and scales zero
  uint16_t d = 0;                      // F16, with the factor
  std::array<uint8_t, 16> scales{};    // 0 ... 15, by group; stands for d * (2 * scale + 1)
  uint32_t zero_groups = 0;            // bit j: group j counts as zero; its points and signs are 0
  std::array<uint16_t, 64> numbers{};  // of the points, in the order of the values
  std::array<uint8_t, 32> signs{};     // bit i is value i of eight
};

// Fits 256 values. If the search overflows, no point is nearest and the first neighbour is taken.
template <class Grid>
GridBlock FitGridBlock(const GridRules& rules, const Grid& grid, Values values, Values importance);

// Sets `empty`, d and the scales of a block.
void RoundGridScales(const GridRules& rules, std::span<const float> scales, GridBlock& block);

extern template GridBlock FitGridBlock(const GridRules&, const Grid8&, Values, Values);
extern template GridBlock FitGridBlock(const GridRules&, const Grid4&, Values, Values);

}  // namespace quant
