// Shared by iq4_nl and iq4_xs: 4-bit codes for unevenly spaced values, which are denser around
// zero.
#pragma once

#include <array>
#include <cstdint>

#include "quant/blocks.h"

namespace quant {

// value = scale * kIq4Codes[q]. The table is ggml's kvalues_iq4nl.
inline constexpr std::array<float, 16> kIq4Codes = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                    1,    13,   25,  38,  53,  69,  89,  113};

// Returns the code nearest to `value`; of two equally near ones, the higher.
constexpr uint8_t NearestIq4Code(float value) {
  if (value <= kIq4Codes.front()) return 0;
  if (value >= kIq4Codes.back()) return kIq4Codes.size() - 1;
  // NaN is not below any code and ends up at the last one.
  uint8_t above = 1;
  while (above + 1u < kIq4Codes.size() && !(value < kIq4Codes[above])) ++above;
  const uint8_t below = above - 1;
  return value - kIq4Codes[below] < kIq4Codes[above] - value ? below : above;
}

// kIq4Limits[k] is the smallest float whose nearest code is above k. The differences that
// NearestIq4Code compares are rounded but monotone in the value, so the code of a value other than
// NaN is the number of limits that it reaches.
inline constexpr std::array<float, 15> kIq4Limits = [] {
  std::array<float, 15> limits{};
  for (uint8_t k = 0; k < limits.size(); ++k) {
    // Bisects until no float lies between.
    float low = kIq4Codes[k], high = kIq4Codes[k + 1u];
    for (float middle = 0; middle = low + (high - low) / 2, middle > low && middle < high;) {
      (NearestIq4Code(middle) > k ? high : low) = middle;
    }
    limits[k] = high;
  }
  return limits;
}();

// Returns the scale with the smallest weighted error for a group of 32, among 16 that put the value
// of largest magnitude at or near the end of the code book; 0 for a zero group. `spread` is the
// mean square that smooths the weights (WeighByImportance). Without importance the weight is the
// value's square. Source: quantize_row_iq4_nl_impl of ggml-quants.c.
float FitIq4Scale(Values values, Values importance, float spread);

// Returns the `spread` of a block, twice the mean square of its values.
float Iq4Spread(Values block);

}  // namespace quant
