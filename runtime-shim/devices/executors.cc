#include "runtime-shim/devices/executors.h"

#include "libshard/base/text/suggest.h"
#include "libshard/base/text/text.h"
#include "runtime-shim/cpu/cpu.h"
#include "runtime-shim/cuda/cuda.h"
#include "runtime-shim/vulkan/vulkan.h"

namespace moepack::runtime {
namespace {

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const ExecutorKind& kind : AllExecutorKinds()) names.emplace_back(kind.name);
  return names;
}

}  // namespace

std::span<const ExecutorKind> AllExecutorKinds() {
  static const ExecutorKind kinds[] = {
      {"cpu", nullptr, OpenCpu, CpuDevices},
      {"vulkan", kVulkanMissing, OpenVulkan, VulkanDevices},
      {"cuda", kCudaMissing, OpenCuda, CudaDevices},
  };
  return kinds;
}

Result<std::unique_ptr<Executor>> OpenExecutor(const std::string& name,
                                               const ExecutorOptions& options) {
  for (const ExecutorKind& kind : AllExecutorKinds()) {
    if (name != kind.name) continue;
    if (kind.missing != nullptr)
      return Error{Code::kUnsupported,
                   Cat("executor ", name, ": this build does not have it: ", kind.missing)};
    return kind.open(options);
  }
  return NotOneOf("executor", Names(), name);
}

}  // namespace moepack::runtime
