#include "runtime-shim/cuda/cuda.h"

namespace moepack::runtime {

const char* const kCudaMissing = MOEPACK_CUDA_MISSING;

Result<std::unique_ptr<Executor>> OpenCuda(const ExecutorOptions&) {
  return Error{Code::kUnsupported, kCudaMissing};
}

std::string CudaDevices() { return ""; }

}  // namespace moepack::runtime
