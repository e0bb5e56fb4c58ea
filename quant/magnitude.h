// Finds the largest magnitude of many values, to tell whether a tile needs a closer look at single
// values.
#pragma once

#include <cstdint>
#include <span>

namespace quant {

// Bits of the largest |value|, 0 for no values. The bits of positive floats are in the order of the
// floats, above them those of infinity (0x7f800000), above these those of every NaN.
uint32_t LargestMagnitudeBits(std::span<const float> values);

}  // namespace quant
