// In place of the other files where the build found no Vulkan.
#include "libshard/base/text.h"
#include "runtime-shim/vulkan/vulkan.h"

namespace runtime {

const char* const kVulkanMissing = MOEPACK_VULKAN_MISSING;

shard::Result<std::unique_ptr<Executor>> OpenVulkan(const ExecutorOptions&) {
  return shard::Error{shard::Code::kUnsupported,
                      shard::Cat("vulkan: this build does not have it: ", kVulkanMissing)};
}

std::string VulkanDevices() { return {}; }

}  // namespace runtime
