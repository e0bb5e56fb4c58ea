// One run of a shader: first its arguments, then over how much it runs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "runtime-shim/executor/shapes.h"
#include "runtime-shim/vulkan/core.h"
#include "runtime-shim/vulkan/shaders.h"

namespace moepack::runtime::vulkan {

// Struct Rows of shaders/rows.glsl: values from the start of the binding, and between rows.
struct BoundRows {
  uint32_t offset = 0, stride = 0;
};

// How a shader is specialized, and how many bytes of host arrays it gets.
struct CallOptions {
  Constants constants{};
  uint64_t host_bytes = 0;
};

// Each Bind uses the next binding of the shader, starting from 0, and returns where in the binding
// the data starts, because offsets of bindings are aligned. Errors go to core.fault, and Run does
// nothing.
class Call {
 public:
  Call(Core& core, std::string_view shader, const CallOptions& options = {});

  BoundRows Bind(const Rows& rows);
  // Binds the one row of an F32 matrix or, if there is none, something that is not read; returns
  // its first value.
  uint32_t BindVector(const Matrix& vector);
  // Returns the first byte of the weights.
  uint32_t BindWeights(const Matrix& weights);
  void BindWhole(const Buffer& buffer);
  // Copies the array; returns its first value.
  uint32_t BindArray(std::span<const std::byte> array);
  template <class T>
  uint32_t BindArray(std::span<const T> array) {
    static_assert(sizeof(T) == 4);
    return BindArray(std::as_bytes(array));
  }

  // `push` is the block of push constants as the shader declares it.
  template <class Push>
  void Run(uint64_t groups, const Push& push) {
    static_assert(std::is_trivially_copyable_v<Push> && sizeof(Push) <= kPushBytes);
    Record(groups, std::as_bytes(std::span(&push, 1)));
  }
  // For shaders with one invocation per element.
  template <class Push>
  void RunOver(uint64_t elements, const Push& push) {
    Run((elements + kElementThreads - 1) / kElementThreads, push);
  }

 private:
  uint64_t BindBytes(const Buffer& buffer, uint64_t first, uint64_t bytes);
  void Append(VkBuffer buffer, uint64_t offset, uint64_t range);
  void Record(uint64_t groups, std::span<const std::byte> push);
  void Dispatch(uint64_t groups);

  Core& core_;
  std::string_view shader_;
  VkPipeline pipeline_ = VK_NULL_HANDLE;
  std::array<VkDescriptorBufferInfo, kMaxBindings> bindings_{};
  uint32_t bound_ = 0;
};

}  // namespace moepack::runtime::vulkan
