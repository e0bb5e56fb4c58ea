// The executor on NVIDIA GPUs. Its library is built where nvcc was found when configuring;
// elsewhere cuda_missing.cc stands for it.
#pragma once

#include <memory>
#include <string>

#include "libshard/base/result.h"
#include "runtime-shim/executor/executor_kind.h"

namespace moepack::runtime {

// Null, or why this build lacks the executor.
extern const char* const kCudaMissing;

Result<std::unique_ptr<Executor>> OpenCuda(const ExecutorOptions& options);
std::string CudaDevices();

}  // namespace moepack::runtime
