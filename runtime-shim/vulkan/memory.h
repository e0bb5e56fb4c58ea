// A Vulkan buffer with its own memory.
#pragma once

#include <volk.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "libshard/base/result.h"
#include "runtime-shim/vulkan/device.h"

namespace moepack::runtime::vulkan {

class Memory {
 public:
  enum class Use { kDevice, kStaging };  // kStaging: written and read by the host
  // kUnavailable, with the bytes, if there is not that much.
  static Result<Memory> Create(Device& device, uint64_t bytes, Use use);
  Memory() = default;
  Memory(Memory&& other) noexcept { Swap(other); }
  Memory& operator=(Memory&& other) noexcept {
    Swap(other);
    return *this;
  }
  ~Memory();

  VkBuffer buffer() const { return buffer_; }
  uint64_t bytes() const { return bytes_; }
  std::byte* mapped() const { return mapped_; }  // null for kDevice

 private:
  void Swap(Memory& other) noexcept;
  Status Allocate(Use use, const std::string& what);
  Status Map();

  Device* device_ = nullptr;
  VkBuffer buffer_ = VK_NULL_HANDLE;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  uint64_t bytes_ = 0;
  uint32_t type_ = 0;
  int64_t counted_ = 0;
  std::byte* mapped_ = nullptr;
};

}  // namespace moepack::runtime::vulkan
