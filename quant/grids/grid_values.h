// The values that the levels of the grid types stand for.
#pragma once

#include <array>
#include <cstdint>

#include "quant/grids/grid.h"

namespace quant {

// The values by level, as ggml's grids have them.
using Grid8Values = std::array<int8_t, Grid8::kLevels>;
using Grid4Values = std::array<int8_t, Grid4::kLevels>;
inline constexpr Grid8Values kIq2Values = {8, 25, 43};  // of iq2_xxs, iq2_xs and iq2_s
inline constexpr Grid4Values kIq3XxsValues = {4, 12, 20, 28, 36, 44, 52, 62};
inline constexpr Grid4Values kIq3SValues = {1, 3, 5, 7, 9, 11, 13, 15};

// Decodes one point. Bit i of `signs` is value i.
template <class Grid>
void DecodeGridPoint(uint16_t point, const std::array<int8_t, Grid::kLevels>& values,
                     unsigned signs, float scale, float* out) {
  for (size_t i = 0; i < Grid::kSize; ++i) {
    const int value = values[Grid::LevelOf(point, i)];
    out[i] = scale * static_cast<float>((signs >> i & 1) != 0 ? -value : value);
  }
}

}  // namespace quant
