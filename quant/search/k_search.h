// The searches for scales that the formats share. Each has a fixed order of float operations,
// because the bytes of a file depend on it. The orders are those of ggml's ggml-quants.c.
//
// All minimise a weighted squared error over a group of values (a grid may ask for the absolute
// error instead), and write the chosen integers to `q`.
#pragma once

#include <cstdint>
#include <span>

#include "quant/blocks.h"

namespace quant {

// Groups whose largest magnitude is below this count as zero.
inline constexpr float kZeroGroup = 1e-15f;

// A group of values and the weight of an error in each of them.
struct WeightedGroup {
  Values values, weights;
};

float SumOfSquares(Values values);
float Sum(Values values);

// weights[i] = importance[i] * sqrt(spread + values[i]^2). `spread` is a mean square over more than
// the group. It ensures that small values of important columns have weight, too.
void WeighByImportance(Values values, Values importance, float spread, std::span<float> weights);

// Returns the value of largest magnitude with its sign; of equal ones, the first. NaN is never the
// largest.
float LargestByMagnitude(Values values);

// The sums of w * x * l and w * l * l over a choice of one integer l per value. Their quotient is
// the best scale for these integers (least squares); it leaves the error (sum of w * x * x) - xl^2
// / ll. So the error falls as xl^2 / ll rises.
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

// value = scale * (q - levels), q in 0 ... 2 * levels - 1. The value of largest magnitude goes to
// -levels or near it, and 19 scales around that are tried. A zero group has scale 0 and q 0. This
// is ggml's make_qx_quants.
float FitSigned(const WeightedGroup& group, int levels, std::span<uint8_t> q);

// value = scale * q, q in 0 ... levels, for values that are not negative (scales of groups). 9
// scales are tried, then single integers are moved as long as that helps. This is ggml's
// make_qp_quants.
float FitPositive(const WeightedGroup& group, int levels, std::span<uint8_t> q);

// The scales that FitScaleAndMin tries: (max - min) / (levels + first + i * step), i in 0 ... last,
// where min is the best found so far. ggml calls the numbers rmin, rdelta and nstep.
struct ScaleGrid {
  int levels;
  float first, step;
  int last;
  bool absolute_error = false;
};

struct ScaleAndMin {
  float scale, min;
};

// value = scale * q - min, q in 0 ... levels, min >= 0. Each scale of the grid determines integers,
// and these determine the scale and min with the smallest error. The best of all is kept. This is
// ggml's make_qkx2_quants and make_qkx3_quants.
ScaleAndMin FitScaleAndMin(const WeightedGroup& group, const ScaleGrid& grid, std::span<uint8_t> q);

// Find the integers nearest to the values once the scale is rounded to what the block can store. A
// scale of 0 leaves `q` as the search filled it. The ranges are those of FitSigned and
// FitScaleAndMin.
void RequantizeSigned(Values values, float scale, int levels, std::span<uint8_t> q);
void RequantizeWithMin(Values values, ScaleAndMin fit, int levels, std::span<uint8_t> q);

// Returns the nearest integer in lowest ... highest; ties go to even.
int NearestLevel(float value, int lowest, int highest);

}  // namespace quant
