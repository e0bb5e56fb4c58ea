#include "runtime-shim/cuda/cuda.h"

namespace runtime {

const char* const kCudaMissing = MOEPACK_CUDA_MISSING;

shard::Result<std::unique_ptr<Executor>> OpenCuda(const ExecutorOptions&) {
  return shard::Error{shard::Code::kUnsupported, kCudaMissing};
}

std::string CudaDevices() { return ""; }

}  // namespace runtime
