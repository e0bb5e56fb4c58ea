// The executor on NVIDIA GPUs. Its library is built if nvcc was found when configuring; otherwise
// cuda_missing.cc replaces it.
#pragma once

#include <memory>
#include <string>

#include "libshard/base/result.h"
#include "runtime-shim/executor/executor.h"

namespace moepack::runtime {

// Null, or why this build lacks the executor.
extern const char* const kCudaMissing;

Result<std::unique_ptr<Executor>> OpenCuda(const ExecutorOptions& options);
std::string CudaDevices();

}  // namespace moepack::runtime
