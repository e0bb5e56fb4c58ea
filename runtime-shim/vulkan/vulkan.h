// The executor on a GPU, or on Mesa's software driver, through Vulkan compute shaders.
#pragma once

#include <memory>
#include <string>

#include "libshard/base/result.h"
#include "runtime-shim/executor/executor.h"

namespace moepack::runtime {

// Null, or why this build has no Vulkan.
extern const char* const kVulkanMissing;

// kUnavailable if there is no driver, no device with that number, or no validation layer although
// one was requested.
Result<std::unique_ptr<Executor>> OpenVulkan(const ExecutorOptions& options);
std::string VulkanDevices();

}  // namespace moepack::runtime
