// The executor on host memory: Eigen for products, OpenMP for threads, weights decoded tile by
// tile.
#pragma once

#include <memory>
#include <string>

#include "libshard/result.h"
#include "runtime-shim/executors.h"

namespace runtime {

shard::Result<std::unique_ptr<Executor>> OpenCpu(const ExecutorOptions& options);
std::string CpuDevices();

}  // namespace runtime
