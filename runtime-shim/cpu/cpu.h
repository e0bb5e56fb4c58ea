// The executor on host memory. Weights are decoded tile by tile, and a team of threads, which sleep
// while they wait, shares the work.
#pragma once

#include <memory>
#include <string>

#include "libshard/base/result.h"
#include "runtime-shim/executor/executor.h"

namespace moepack::runtime {

Result<std::unique_ptr<Executor>> OpenCpu(const ExecutorOptions& options);
std::string CpuDevices();

}  // namespace moepack::runtime
