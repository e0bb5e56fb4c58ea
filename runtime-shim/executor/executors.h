// The kinds of executors, which have one row each in executors.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
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

// A kind of executor: one row in executors.cc.
struct ExecutorKind {
  const char* name;
  // why this build lacks it ("nvcc was not found when configuring"); null when it has it
  const char* missing;
  // kUnavailable when there is no such device.
  Result<std::unique_ptr<Executor>> (*open)(const ExecutorOptions& options);
  // Returns one line per device, "0: llvmpipe, Vulkan 1.3\n"; empty when there is none.
  std::string (*devices)();
};
std::span<const ExecutorKind> AllExecutorKinds();
// Opens an executor by name. kInvalidArgument for an unknown name, kUnsupported for one that this
// build lacks.
Result<std::unique_ptr<Executor>> OpenExecutor(const std::string& name,
                                               const ExecutorOptions& options);

}  // namespace moepack::runtime
