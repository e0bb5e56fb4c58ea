// The part of CUDA's runtime that runtime-shim/cuda uses, for tests on machines without a GPU:
// kernels are compiled for the host, and the threads of a block take turns at every barrier and
// shuffle. Work in a stream is done when somebody waits for it, as late as a device may.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#define __global__
#define __device__
#define __shared__ static  // one block runs at a time
#define __launch_bounds__(...)
#define __forceinline__ inline

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};
struct alignas(16) float4 {
  float x, y, z, w;
};

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorNoDevice = 100,
  cudaErrorIllegalAddress = 700,
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };

struct EmulatedStream;
using cudaStream_t = EmulatedStream*;

namespace emulation {

// Whether cuBLAS and cuSOLVER are there, are not, or one of them does not start.
enum class Libraries { kThere, kMissing, kWithoutBlas, kWithoutSolver };

// The machine that the following calls find.
struct Machine {
  int devices = 1;
  int major = 9, minor = 0;
  size_t memory = size_t{1} << 30;  // of a device
  bool lost = false;                // work in the stream fails
  Libraries libraries = Libraries::kThere;
};
Machine& TheMachine();
// Bytes of device and pinned memory that have not been freed, and the most that there were since
// somebody set this.
size_t BytesInUse();
size_t& MostBytesInUse();
// How many handles of libraries have not been destroyed.
int& HandlesInUse();
// Whether this is inside one allocation of device memory.
bool IsOnDevice(const void* data, size_t bytes);

// Puts work into the stream; a kernel is `body` executed by every thread of every block.
void Enqueue(std::function<void()> work);
// Whether a device takes such a grid; otherwise cudaGetLastError says that it does not.
bool TakesGrid(dim3 grid);
void RunBlocks(dim3 grid, int threads, const std::function<void()>& body);
template <class Body>
void Run(dim3 grid, int threads, cudaStream_t, const Body& body) {
  if (TakesGrid(grid)) Enqueue([=] { RunBlocks(grid, threads, body); });
}

void WaitForBlock();
float Shuffle(float value, int distance);

struct Event {
  uint64_t after = 0;  // works of the stream
};

}  // namespace emulation

extern dim3 threadIdx, blockIdx;

inline void __syncthreads() { emulation::WaitForBlock(); }
inline float __shfl_xor_sync(unsigned, float value, int distance) {
  return emulation::Shuffle(value, distance);
}

using cudaEvent_t = emulation::Event*;

struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem;
  int major, minor, multiProcessorCount;
};

inline constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2;

const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);
cudaError_t cudaMalloc(void** memory, size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaMallocHost(void** memory, size_t bytes);
cudaError_t cudaFreeHost(void* memory);
cudaError_t cudaMallocAsync(void** memory, size_t bytes, cudaStream_t stream);
cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventDestroy(cudaEvent_t event);
