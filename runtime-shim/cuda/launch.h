// How kernels are started and what their threads share. Tests compile the same kernels for the
// host, with their own <cuda_runtime.h>, which runs the threads of a block in turn.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace moepack::runtime::cuda {

inline constexpr int kThreads = 256;  // of a block, in every kernel
inline constexpr int kLanes = 32;     // of a warp
inline constexpr int kWarps = kThreads / kLanes;

template <class... Parameters>
void Launch(void (*kernel)(Parameters...), dim3 grid, cudaStream_t stream,
            const Parameters&... parameters) {
#ifdef __CUDACC__
  kernel<<<grid, kThreads, 0, stream>>>(parameters...);
#else
  emulation::Run(grid, kThreads, stream, [=] { kernel(parameters...); });
#endif
}

inline uint32_t Blocks1d(uint64_t items, uint32_t per_block) {
  return static_cast<uint32_t>((items + per_block - 1) / per_block);
}

// The sum over a warp, in every lane; the same order of additions every time.
__device__ inline float WarpSum(float value) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, distance);
  }
  return value;
}

__device__ inline float WarpMax(float value) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  return value;
}

// The sum over the block, in every thread, of one value per warp. Every thread must call it.
struct SumOfWarps {
  __device__ static float Join(float a, float b) { return a + b; }
};
struct MaxOfWarps {
  __device__ static float Join(float a, float b) { return fmaxf(a, b); }
};

template <class Kind>
__device__ inline float OverWarps(float of_warp, float (&slots)[kWarps]) {
  __syncthreads();  // slots may still be read from the previous call
  if (threadIdx.x % kLanes == 0) slots[threadIdx.x / kLanes] = of_warp;
  __syncthreads();
  float value = slots[0];
  for (int i = 1; i < kWarps; ++i) value = Kind::Join(value, slots[i]);
  return value;
}

}  // namespace moepack::runtime::cuda
