// Shared by mxfp4 and nvfp4: the sixteen numbers of F4_E2M1.
#pragma once

#include <array>
#include <cstdint>

namespace quant {

// Twice the values of E2M1, so that they are integers; scales are halved to make up for it.
inline constexpr std::array<float, 16> kFp4Codes = {0, 1,  2,  3,  4,  6,  8,  12,
                                                    0, -1, -2, -3, -4, -6, -8, -12};

// Halfway between neighbours of the first eight codes.
inline constexpr std::array<float, 7> kFp4Middles = {0.5f, 1.5f, 2.5f, 3.5f, 5, 7, 10};

// Returns the first of the codes that are nearest to `value` in units of `scale`.
uint8_t NearestFp4Code(float value, float scale);

}  // namespace quant
