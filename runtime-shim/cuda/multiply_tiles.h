// The product for many tokens: a block of threads computes 64 x 64 values of y. 64 rows of weights,
// 128 columns at a time, are decoded into shared memory once and used for all its tokens. What
// comes next is loaded into registers meanwhile, because a device waits longer for its memory than
// it computes.
//
// The experts of a layer are small: the gate of one has 12 tiles of rows, while a large GPU has
// more than 100 multiprocessors. So the columns are shared out too until the device is filled, and
// a second kernel adds the sums in the order of the columns. The bits therefore depend on the
// device and on the number of tokens, but they are the same every time.
#pragma once

#include <algorithm>

#include "runtime-shim/cuda/tile_loads.h"

namespace moepack::runtime::cuda {

inline constexpr int kThreadValues = kTileValues / kThreads;

// How y is divided into tiles, and the columns into shares.
struct TileGrid {
  uint32_t rows, tokens, shares;  // tiles of rows and of tokens, shares of the columns
  uint32_t share_columns;         // of a share; a multiple of kDepth

  static TileGrid Of(const Product& product) {
    TileGrid grid{Blocks1d(product.weights.rows, kTile), Blocks1d(product.x.count, kTile), 1, 0};
    const uint32_t depths = Blocks1d(product.weights.columns, kDepth);
    const uint64_t tiles = uint64_t{grid.rows} * grid.tokens;
    const uint64_t shares = std::clamp<uint64_t>(product.partial_tiles / tiles, 1, depths);
    const uint32_t share_depths = Blocks1d(depths, static_cast<uint32_t>(shares));
    grid.shares = Blocks1d(depths, share_depths);
    grid.share_columns = share_depths * kDepth;
    return grid;
  }
};

// A thread computes values of kSide rows and kSide tokens of the tile, from these on: value i is
// that of row i / kSide and token i % kSide.
inline constexpr int kSide = 4;
static_assert(kSide * kSide == kThreadValues);
__device__ __forceinline__ uint32_t FirstRow() { return threadIdx.x % (kTile / kSide) * kSide; }
__device__ __forceinline__ uint32_t FirstToken() { return threadIdx.x / (kTile / kSide) * kSide; }

// sums[i][j] += row FirstRow() + i times token FirstToken() + j, over a slice.
__device__ __forceinline__ void AddSlice(const Tiles& tiles, int first,
                                         float (&sums)[kSide][kSide]) {
  const uint32_t row = FirstRow(), token = FirstToken();
  MOEPACK_UNROLL
  for (int k = 0; k < kSlice; ++k) {
    const float4 w4 = *reinterpret_cast<const float4*>(&tiles.weights[first + k][row]);
    const float4 x4 = *reinterpret_cast<const float4*>(&tiles.x[k][token]);
    const float w[kSide] = {w4.x, w4.y, w4.z, w4.w}, x[kSide] = {x4.x, x4.y, x4.z, x4.w};
    MOEPACK_UNROLL
    for (int i = 0; i < kThreadValues; ++i) {
      sums[i / kSide][i % kSide] += w[i / kSide] * x[i % kSide];
    }
  }
}

// Stores value i of this thread's kThreadValues, if y has it.
__device__ __forceinline__ void StoreValue(const Product& product, uint32_t i, float value) {
  const uint32_t row = blockIdx.x * kTile + FirstRow() + i / kSide;
  const uint32_t token = blockIdx.y * kTile + FirstToken() + i % kSide;
  if (row < product.weights.rows && token < product.y.count) {
    product.y.data[token * product.y.stride + row] = value;
  }
}

// Where this thread keeps its value i, summed over share `share`.
__device__ __forceinline__ float* PartialValue(const Product& product, const TileGrid& grid,
                                               uint32_t share, uint32_t i) {
  const uint64_t tile = (uint64_t{share} * grid.tokens + blockIdx.y) * grid.rows + blockIdx.x;
  return product.partial + tile * kTileValues + i * kThreads + threadIdx.x;
}

// blockIdx: tile of rows, tile of tokens, share of the columns.
template <class Type>
__global__ void __launch_bounds__(kThreads) MultiplyTiles(Product product, TileGrid grid) {
  __shared__ Tiles tiles;
  float sums[kSide][kSide] = {};
  NextWeights<Type> weights;
  NextX x;
  const uint32_t begin = blockIdx.z * grid.share_columns;
  const uint32_t share_end = begin + grid.share_columns;
  const uint32_t end = share_end < product.weights.columns ? share_end : product.weights.columns;
  weights.Load(product.weights, begin);
  x.Load(product.x, begin);
  for (uint32_t first = begin; first < end; first += kDepth) {
    __syncthreads();
    weights.Decode(product.weights, first, tiles);
    if (first + kDepth < end) weights.Load(product.weights, first + kDepth);
    for (uint32_t k = 0; k < kDepth && first + k < end; k += kSlice) {
      if (k > 0) __syncthreads();
      x.Store(tiles);
      __syncthreads();
      if (first + k + kSlice < end) x.Load(product.x, first + k + kSlice);
      AddSlice(tiles, static_cast<int>(k), sums);
    }
  }
  MOEPACK_UNROLL
  for (uint32_t i = 0; i < kThreadValues; ++i) {
    const float sum = sums[i / kSide][i % kSide];
    if (grid.shares == 1) {
      StoreValue(product, i, sum);
    } else {
      *PartialValue(product, grid, blockIdx.z, i) = sum;
    }
  }
}

// y from the sums over each share.
void AddShares(const Product& product, const TileGrid& grid, cudaStream_t stream);

template <class Type>
void MultiplyInTiles(const Product& product, cudaStream_t stream) {
  const TileGrid grid = TileGrid::Of(product);
  Launch(MultiplyTiles<Type>, {grid.rows, grid.tokens, grid.shares}, stream, product, grid);
  if (grid.shares > 1) AddShares(product, grid, stream);
}

}  // namespace moepack::runtime::cuda
