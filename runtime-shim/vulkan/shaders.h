// The compiled shaders, embedded by the build (CMakeLists.txt makes the table).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace moepack::runtime::vulkan {

// The storage buffers of a shader; all pipelines share a layout with this many.
inline constexpr uint32_t kMaxBindings = 5;
// What every device supports.
inline constexpr uint32_t kPushBytes = 128;
// Invocations of a workgroup in shaders that process one element each.
inline constexpr uint32_t kElementThreads = 128;

// "add", or an operation and the type of its weights: "mat_vec.q4_K".
struct Shader {
  std::string_view name;
  std::span<const uint32_t> code;  // SPIR-V
};

// Null if there is none.
const Shader* FindShader(std::string_view name);

}  // namespace moepack::runtime::vulkan
