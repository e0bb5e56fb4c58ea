// The code books that the shaders of some types read from a buffer (shaders/grid_points.glsl).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace moepack::runtime::vulkan {

// The points of quant/grids/points.h for a type, by quant::Format::name, an even number of them;
// empty for types without any.
std::span<const uint16_t> PointsOf(std::string_view format);

}  // namespace moepack::runtime::vulkan
