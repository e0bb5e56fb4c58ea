// The product for many tokens: a block of threads computes 64 x 64 values of y. 64 rows of weights,
// 128 columns at a time, are decoded into shared memory once and used for all its tokens.
#pragma once

#include "runtime-shim/cuda/blocks.h"
#include "runtime-shim/cuda/launch.h"
#include "runtime-shim/cuda/products.h"

namespace moepack::runtime::cuda {

inline constexpr int kTile = 64;    // rows, and tokens
inline constexpr int kDepth = 128;  // columns of weights decoded at a time
inline constexpr int kSlice = 16;   // columns of x loaded at a time
inline constexpr int kTilePitch = kTile + 4;

// Columns are rows of the tiles, so that four rows, or tokens, of a column are read at once.
struct alignas(16) Tiles {
  float weights[kDepth][kTilePitch];
  float x[kSlice][kTilePitch];
};
static_assert(sizeof(Tiles) <= 48 * 1024);

// Zeros where there are no rows or columns.
template <class Type>
__device__ void DecodeTile(const Blocks& weights, uint32_t first_column, Tiles& tiles) {
  constexpr int kPartValues = Type::kGroups * Type::kGroupValues;
  constexpr int kTileParts = kDepth / kPartValues;
  const uint32_t parts = weights.columns / Type::kValues * Type::kParts;
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kTileParts; i += kThreads) {
    const uint32_t row = blockIdx.x * kTile + static_cast<uint32_t>(i % kTile);
    const uint32_t part = first_column / kPartValues + static_cast<uint32_t>(i / kTile);
    const bool there = row < weights.rows && part < parts;
    const uint32_t block = part / Type::kParts;
    const auto of_block = static_cast<int>(part % Type::kParts);
    const int start = static_cast<int>(block * Type::kValues) - static_cast<int>(first_column);
    typename Type::Part loaded{};
    if (there) {
      loaded = Type::Load(weights.data + row * weights.row_bytes + uint64_t{block} * Type::kBytes,
                          of_block);
    }
    MOEPACK_UNROLL
    for (int g = 0; g < Type::kGroups; ++g) {
      const auto group = Type::Decode(loaded, of_block, g);
      const int first = start + Type::First(of_block, g);
      MOEPACK_UNROLL
      for (int j = 0; j < Type::kGroupValues; ++j) {
        tiles.weights[first + j][i % kTile] = there ? group.template Value<Type>(j) : 0.0f;
      }
    }
  }
}

__device__ inline void LoadSlice(const Floats& x, uint32_t first_column, Tiles& tiles) {
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kSlice; i += kThreads) {
    const uint32_t token = blockIdx.y * kTile + static_cast<uint32_t>(i / kSlice);
    const uint32_t column = first_column + static_cast<uint32_t>(i % kSlice);
    const bool there = token < x.count && column < x.width;
    tiles.x[i % kSlice][i / kSlice] = there ? x.data[token * x.stride + column] : 0.0f;
  }
}

// sums[i][j] += rows 4 * (thread % 16) + i, tokens 4 * (thread / 16) + j, over a slice.
__device__ __forceinline__ void AddSlice(const Tiles& tiles, int first, float (&sums)[4][4]) {
  const int row = static_cast<int>(threadIdx.x % 16) * 4;
  const int token = static_cast<int>(threadIdx.x / 16) * 4;
  MOEPACK_UNROLL
  for (int k = 0; k < kSlice; ++k) {
    const float4 w4 = *reinterpret_cast<const float4*>(&tiles.weights[first + k][row]);
    const float4 x4 = *reinterpret_cast<const float4*>(&tiles.x[k][token]);
    const float w[4] = {w4.x, w4.y, w4.z, w4.w}, x[4] = {x4.x, x4.y, x4.z, x4.w};
    MOEPACK_UNROLL
    for (int i = 0; i < 16; ++i) sums[i / 4][i % 4] += w[i / 4] * x[i % 4];
  }
}

template <class Type>
__global__ void __launch_bounds__(kThreads) MultiplyTiles(Product product) {
  __shared__ Tiles tiles;
  float sums[4][4] = {};
  const uint32_t columns = product.weights.columns;
  for (uint32_t first = 0; first < columns; first += kDepth) {
    __syncthreads();
    DecodeTile<Type>(product.weights, first, tiles);
    for (int k = 0; k < kDepth && first + static_cast<uint32_t>(k) < columns; k += kSlice) {
      if (k > 0) __syncthreads();
      LoadSlice(product.x, first + static_cast<uint32_t>(k), tiles);
      __syncthreads();
      AddSlice(tiles, k, sums);
    }
  }
  MOEPACK_UNROLL
  for (uint32_t i = 0; i < 16; ++i) {
    const uint32_t row = blockIdx.x * kTile + threadIdx.x % 16 * 4 + i / 4;
    const uint32_t token = blockIdx.y * kTile + threadIdx.x / 16 * 4 + i % 4;
    if (row < product.weights.rows && token < product.y.count) {
      product.y.data[token * product.y.stride + row] = sums[i / 4][i % 4];
    }
  }
}

}  // namespace moepack::runtime::cuda
