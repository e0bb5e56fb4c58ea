// A logical device with one queue, its limits and its kinds of memory.
#pragma once

#include <volk.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "libshard/base/result.h"

namespace moepack::runtime::vulkan {

struct Limits {
  uint64_t binding_bytes = 0;      // of a slice that a shader sees
  uint64_t binding_alignment = 0;  // of its first byte; a power of two, at least 4
  uint64_t allocation_bytes = 0;
  std::array<uint32_t, 3> groups{};  // of a dispatch, by dimension
};

class Device {
 public:
  static Result<std::unique_ptr<Device>> Create(VkPhysicalDevice physical);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device();

  VkDevice handle() const { return device_; }
  VkQueue queue() const { return queue_; }
  uint32_t family() const { return family_; }
  const Limits& limits() const { return limits_; }
  std::string description() const;

  // The heap for memory that only the device reads: its size, and what is free according to the
  // driver (VK_EXT_memory_budget) or otherwise according to us.
  uint64_t heap_bytes() const { return memory_.memoryHeaps[heap_].size; }
  uint64_t available() const;
  // Records memory that was allocated or freed, by its type.
  void Count(uint32_t type, int64_t bytes);
  // The type with all of `required` and, if there is one, `preferred`.
  Result<uint32_t> FindType(uint32_t allowed, VkMemoryPropertyFlags required,
                            VkMemoryPropertyFlags preferred) const;

 private:
  explicit Device(VkPhysicalDevice physical) : physical_(physical) {}
  Status Start();
  void ReadLimits();
  void ReadMemory();

  VkPhysicalDevice physical_;
  VkDevice device_ = VK_NULL_HANDLE;
  VkQueue queue_ = VK_NULL_HANDLE;
  uint32_t family_ = 0;
  Limits limits_;
  VkPhysicalDeviceMemoryProperties memory_{};
  uint32_t heap_ = 0;
  bool tells_budget_ = false;
  int64_t allocated_ = 0;
};

}  // namespace moepack::runtime::vulkan
