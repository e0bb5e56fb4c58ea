// One kind of executor, and what it is opened with; runtime-shim/devices/executors.h lists them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "libshard/base/result.h"
#include "runtime-shim/executor/executor.h"

namespace moepack::runtime {

inline constexpr size_t kMaxThreads = 1024;  // the most that the CPU executor starts

struct ExecutorOptions {
  uint32_t device = 0;             // the number in `moepack run --list-devices`
  uint32_t threads = 0;            // CPU: 0 for one per core
  bool round_activations = false;  // CPU: round inputs of products as llama.cpp's kernels do
  // Vulkan: turns validation layers on; their messages make Read and Finish fail
  bool validation = false;
};

// A kind of executor: one row in devices/executors.cc.
struct ExecutorKind {
  const char* name;
  // why this build lacks it ("nvcc was not found when configuring"); null if it has it
  const char* missing;
  // kUnavailable if there is no such device.
  Result<std::unique_ptr<Executor>> (*open)(const ExecutorOptions& options);
  // Returns one line per device, "0: llvmpipe, Vulkan 1.3\n"; empty if there is none.
  std::string (*devices)();
};

}  // namespace moepack::runtime
