// Chooses a device and starts on it.
#include "libshard/base/text/text.h"
#include "runtime-shim/vulkan/vulkan.h"
#include "runtime-shim/vulkan/vulkan_executor.h"

namespace moepack::runtime {

const char* const kVulkanMissing = nullptr;

Result<std::unique_ptr<Executor>> OpenVulkan(const ExecutorOptions& options) {
  SHARD_TRY(auto executor, vulkan::VulkanExecutor::Open(options));
  return std::unique_ptr<Executor>(std::move(executor));
}

std::string VulkanDevices() {
  const auto instance = vulkan::Instance::Create(false);
  if (!instance) return {};
  const auto devices = (*instance)->Devices();
  if (!devices) return {};
  std::string lines;
  for (size_t i = 0; i < devices->size(); ++i)
    lines += Cat(i, ": ", vulkan::DescriptionOf((*devices)[i]), "\n");
  return lines;
}

namespace vulkan {

Result<std::unique_ptr<VulkanExecutor>> VulkanExecutor::Open(const ExecutorOptions& options) {
  std::unique_ptr<VulkanExecutor> executor(new VulkanExecutor);
  SHARD_CHECK(executor->Start(options));
  return executor;
}

Status VulkanExecutor::Start(const ExecutorOptions& options) {
  SHARD_TRY(core_.instance, Instance::Create(options.validation));
  SHARD_TRY(const std::vector<VkPhysicalDevice> devices, core_.instance->Devices());
  if (options.device >= devices.size()) {
    return Error{Code::kUnavailable,
                 Cat("vulkan: expected one of ", Plural(devices.size(), "device"),
                     " (0: the first), found ", options.device),
                 "list them with `moepack run --list-devices`"};
  }
  SHARD_TRY(core_.device, Device::Create(devices[options.device]));
  SHARD_TRY(core_.pipelines, Pipelines::Create(*core_.device));
  SHARD_TRY(core_.recorder, Recorder::Create(*core_.device, core_.pipelines->set_layout()));
  return Ok();
}

}  // namespace vulkan
}  // namespace moepack::runtime
