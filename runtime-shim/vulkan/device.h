// The Vulkan objects that everything else is made of: the instance, a device with its queue, and
// memory.
#pragma once

#include <volk.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"

namespace moepack::runtime::vulkan {

// The connection to the Vulkan loader: physical devices, and what the validation layer says.

class Instance {
 public:
  // kUnavailable if there is no driver, or no validation layer although one was requested.
  static Result<std::unique_ptr<Instance>> Create(bool validation);
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;
  ~Instance();

  VkInstance handle() const { return instance_; }
  // Devices that have what the shaders need; GPUs before software, otherwise in the loader's order.
  Result<std::vector<VkPhysicalDevice>> Devices() const;
  // Errors of the validation layer since the last call, one per line; empty if there are none.
  std::string TakeMessages();

 private:
  Instance() = default;
  Status Start(bool validation);
  Status ListenToValidation();
  static VKAPI_ATTR VkBool32 VKAPI_CALL Listen(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                               VkDebugUtilsMessageTypeFlagsEXT types,
                                               const VkDebugUtilsMessengerCallbackDataEXT* data,
                                               void* instance);

  VkInstance instance_ = VK_NULL_HANDLE;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  // The layer may report from threads of the driver.
  std::mutex mutex_;
  std::string messages_;
};

// The index of a queue family that can compute; no value if there is none.
std::optional<uint32_t> ComputeFamily(VkPhysicalDevice device);

// "llvmpipe (LLVM 15.0.6, 256 bits), Vulkan 1.3".
std::string DescriptionOf(VkPhysicalDevice device);

// Everything but the type is zero.
template <class T>
T Structure(VkStructureType type) {
  T structure{};
  structure.sType = type;
  return structure;
}

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

// A Vulkan buffer with its own memory.

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
