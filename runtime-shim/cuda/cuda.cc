#include "runtime-shim/cuda/cuda.h"

#include <cuda_runtime.h>

#include "libshard/base/text/text.h"
#include "runtime-shim/cuda/cuda_executor.h"

namespace moepack::runtime {
namespace {

// Below this the library contains no code (CMakeLists.txt: the lowest architecture).
constexpr int kLeastMajor = 7, kLeastMinor = 5;

bool IsTooOld(const cudaDeviceProp& properties) {
  return properties.major < kLeastMajor ||
         (properties.major == kLeastMajor && properties.minor < kLeastMinor);
}

}  // namespace

const char* const kCudaMissing = nullptr;

Result<std::unique_ptr<Executor>> OpenCuda(const ExecutorOptions& options) {
  int count = 0;
  SHARD_CHECK(cuda::Checked("no device can be used", cudaGetDeviceCount(&count)));
  if (options.device >= static_cast<uint32_t>(count)) {
    return Error{Code::kUnavailable, Cat("cuda: device ", options.device, ": expected one of ",
                                         Plural(count, "device"), ", counted from 0")};
  }
  const int device = static_cast<int>(options.device);
  cudaDeviceProp properties;
  SHARD_CHECK(cuda::Checked("properties", cudaGetDeviceProperties(&properties, device)));
  if (IsTooOld(properties)) {
    return Error{Code::kUnavailable,
                 Cat("cuda: device ", device, ": expected compute capability ", kLeastMajor, ".",
                     kLeastMinor, " or above, found ", properties.major, ".", properties.minor)};
  }
  return cuda::CudaExecutor::Open(device);
}

std::string CudaDevices() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
  std::string lines;
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp properties;
    if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) continue;
    lines += Cat(device, ": ", properties.name, ", ", FormatBytes(properties.totalGlobalMem),
                 ", compute capability ", properties.major, ".", properties.minor,
                 IsTooOld(properties) ? ", too old" : "", "\n");
  }
  cudaGetLastError();  // "no device" is an answer here, not an error to keep
  return lines;
}

}  // namespace moepack::runtime
