// Kernels that compute each value of some rows by itself.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "runtime-shim/cuda/launch.h"
#include "runtime-shim/cuda/products.h"

namespace moepack::runtime::cuda {

// One thread calls work(row, column) for one value.
template <class Work>
__global__ void __launch_bounds__(kThreads) ForEachValue(Work work, uint32_t columns) {
  const uint32_t column = blockIdx.y * kThreads + threadIdx.x;
  if (column < columns) work(blockIdx.x, column);
}

template <class Work>
void Run(const Work& work, uint32_t rows, uint32_t columns, cudaStream_t stream) {
  if (rows == 0 || columns == 0) return;
  Launch(ForEachValue<Work>, {rows, Blocks1d(columns, kThreads)}, stream, work, columns);
}

// Value (row, column) of Floats or DoubleValues.
template <class Values>
__device__ inline auto& At(const Values& rows, uint32_t row, uint32_t column) {
  return rows.data[row * rows.stride + column];
}

__device__ inline float Sigmoid(float x) { return 1 / (1 + expf(-x)); }

}  // namespace moepack::runtime::cuda
