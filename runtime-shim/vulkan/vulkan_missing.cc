// Replaces the other files if the build found no Vulkan.
#include "libshard/base/text/text.h"
#include "runtime-shim/vulkan/vulkan.h"

namespace moepack::runtime {

const char* const kVulkanMissing = MOEPACK_VULKAN_MISSING;

Result<std::unique_ptr<Executor>> OpenVulkan(const ExecutorOptions&) {
  return Error{Code::kUnsupported, Cat("vulkan: this build does not have it: ", kVulkanMissing)};
}

std::string VulkanDevices() { return {}; }

}  // namespace moepack::runtime
