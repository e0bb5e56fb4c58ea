#define VOLK_IMPLEMENTATION
#include "runtime-shim/vulkan/loader.h"

namespace moepack::runtime::vulkan {

Status OpenLoader() {
  static const VkResult opened = volkInitialize();
  if (opened == VK_SUCCESS) return Ok();
  return Error{Code::kUnavailable, "vulkan: libvulkan.so.1: expected the Vulkan loader, found none",
               "install it (Debian: libvulkan1) and a driver, or choose another executor"};
}

}  // namespace moepack::runtime::vulkan
