// What iq4_nl and iq4_xs have in common: 4-bit codes that stand for unevenly spaced values, denser
// around zero.
#pragma once

#include <array>
#include <cstdint>

#include "quant/blocks.h"

namespace quant {

// value = scale * kIq4Codes[q]. From ggml's table for these types.
inline constexpr std::array<float, 16> kIq4Codes = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                    1,    13,   25,  38,  53,  69,  89,  113};

// The code nearest to `value`; of two equally near the higher.
uint8_t NearestIq4Code(float value);

// The scale with the least weighted error for a group of 32, among 16 that put the value of largest
// magnitude at or near the ends of the code book; 0 for a zero group. `spread` is the mean square
// that smooths the weights (WeighByImportance); without importance the weight is the value's
// square.
float FitIq4Scale(Values values, Values importance, float spread);

// The `spread` of a block: twice the mean square of its values.
float Iq4Spread(Values block);

}  // namespace quant
