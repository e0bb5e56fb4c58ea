// The connection to the Vulkan loader: physical devices, and what the validation layer says.
#pragma once

#include <volk.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"

namespace moepack::runtime::vulkan {

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

}  // namespace moepack::runtime::vulkan
