// The code books of the iq1, iq2 and iq3 types: data of the formats, taken from the grids of ggml's
// ggml-common.h. A block stores the number of a point; the point gives the levels of eight values
// (iq1, iq2) or four (iq3) at once. The numbers are in points/*.inc, which the CUDA kernels include
// too.
//
// A point is written as its levels packed, the first value lowest: two bits each for eight values
// of three levels, three bits each for four values of eight levels. What a level stands for depends
// on the type and is documented there.
#pragma once

#include <array>
#include <cstdint>

namespace quant {

extern const std::array<uint16_t, 256> kIq2XxsPoints;
extern const std::array<uint16_t, 512> kIq2XsPoints;
extern const std::array<uint16_t, 1024> kIq2SPoints;
extern const std::array<uint16_t, 256> kIq3XxsPoints;
extern const std::array<uint16_t, 512> kIq3SPoints;
extern const std::array<uint16_t, 2048> kIq1Points;  // iq1_s and iq1_m

}  // namespace quant
