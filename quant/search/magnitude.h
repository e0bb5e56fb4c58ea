// Finds the largest magnitude of many values, which shows whether the values of a tile need a
// closer look.
#pragma once

#include <cstdint>
#include <span>

namespace quant {

// Returns the bits of the largest |value|; 0 for no values. The bits of positive floats are ordered
// as the floats are; infinity (0x7f800000) is above all of them, and every NaN above infinity.
uint32_t LargestMagnitudeBits(std::span<const float> values);

}  // namespace quant
