// One kind of executor and what it is opened with; runtime-shim/devices/executors.h lists them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "libshard/base/result.h"
#include "runtime-shim/executor/executor.h"

namespace moepack::runtime {

inline constexpr size_t kMaxThreads = 1024;  // of the CPU; more are not started

struct ExecutorOptions {
  uint32_t device = 0;             // of those the executor counts (`moepack run --list-devices`)
  uint32_t threads = 0;            // of the CPU; 0: one per core
  bool round_activations = false;  // CPU: round inputs of products as llama.cpp's kernels do
  bool validation = false;  // Vulkan: validation layers on; what they say fails Read and Finish
};

// A kind of executor: one row in devices/executors.cc.
struct ExecutorKind {
  const char* name;
  const char* missing;  // null, or why this build lacks it ("nvcc was not found when configuring")
  // kUnavailable when there is no such device.
  Result<std::unique_ptr<Executor>> (*open)(const ExecutorOptions& options);
  // One line per device, "0: llvmpipe, Vulkan 1.3\n"; empty when there is none.
  std::string (*devices)();
};

}  // namespace moepack::runtime
