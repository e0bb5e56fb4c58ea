// The searches for scales that the formats share, each in one fixed order of float operations: the
// bytes of a file depend on it. ggml's ggml-quants.c is where the orders come from.
//
// All of them minimise a weighted squared error (one grid may ask for the absolute error) over a
// group of values, and leave the chosen integers in `q`.
#pragma once

#include <cstdint>
#include <span>

#include "quant/blocks.h"

namespace quant {

// Groups whose largest magnitude is below this count as zero.
inline constexpr float kZeroGroup = 1e-15f;

// A group of values and what an error in each of them costs.
struct WeightedGroup {
  Values values, weights;
};

float SumOfSquares(Values values);
float Sum(Values values);

// weights[i] = importance[i] * sqrt(spread + values[i]^2). `spread`, a mean square over more than
// the group, keeps small values of important columns from being worth nothing.
void WeighByImportance(Values values, Values importance, float spread, std::span<float> weights);

// The value of largest magnitude, with its sign; the first of equals. NaN never is the largest.
float LargestByMagnitude(Values values);

// Weighted sums over a choice of one integer l per value: of w * x * l and of w * l * l. Their
// quotient is the best scale for these integers; the error falls as xl^2 / ll rises.
struct LevelFit {
  float xl = 0, ll = 0;

  void Add(float weight, float value, int level) {
    const float l = static_cast<float>(level);
    xl += weight * value * l;
    ll += weight * l * l;
  }
  void Remove(float weight, float value, int level) {
    const float l = static_cast<float>(level);
    xl -= weight * value * l;
    ll -= weight * l * l;
  }
  bool BetterThan(const LevelFit& other) const {
    return xl * xl * other.ll > other.xl * other.xl * ll;
  }
  float Scale() const { return ll > 0 ? xl / ll : 0.0f; }
};

// value = scale * (q - levels), q in 0 ... 2 * levels - 1. The value of largest magnitude is put at
// or near -levels; 19 scales around that are tried. A zero group has scale 0 and q 0.
float FitSigned(const WeightedGroup& group, int levels, std::span<uint8_t> q);

// value = scale * q, q in 0 ... levels, for values that are not negative (scales of groups):
// 9 scales are tried, then single integers are moved while that helps.
float FitPositive(const WeightedGroup& group, int levels, std::span<uint8_t> q);

// The scales that FitScaleAndMin tries: (max - min) / (levels + first + i * step), i in 0 ... last,
// where min is the best found so far.
struct ScaleGrid {
  int levels;
  float first, step;
  int last;
  bool absolute_error = false;
};

struct ScaleAndMin {
  float scale, min;
};

// value = scale * q - min, q in 0 ... levels, min >= 0. Each scale of the grid gives integers, and
// these the scale and min with the least error; the best of all is kept.
ScaleAndMin FitScaleAndMin(const WeightedGroup& group, const ScaleGrid& grid, std::span<uint8_t> q);

// Once a scale has been rounded to what the block can store: the integers nearest to the values at
// that scale. A scale of 0 leaves `q` as the search filled it. Ranges as in FitSigned and
// FitScaleAndMin.
void RequantizeSigned(Values values, float scale, int levels, std::span<uint8_t> q);
void RequantizeWithMin(Values values, ScaleAndMin fit, int levels, std::span<uint8_t> q);

// The nearest of lowest ... highest, ties to even.
int NearestLevel(float value, int lowest, int highest);

}  // namespace quant
