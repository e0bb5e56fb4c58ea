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

#include "runtime-shim/cuda/blocks.h"
#include "runtime-shim/cuda/launch.h"
#include "runtime-shim/cuda/products.h"

namespace moepack::runtime::cuda {

// The tiles of weights and of x that a block of threads multiplies, and how they get there: first
// into registers, while the tiles before them are still in use, then into shared memory.

inline constexpr int kDepth = 128;  // columns of weights decoded at a time
inline constexpr int kSlice = 32;   // columns of x loaded at a time
inline constexpr int kTilePitch = kTile + 4;

// Columns are rows of the tiles, so that four rows, or tokens, of a column are read at once.
struct alignas(16) Tiles {
  float weights[kDepth][kTilePitch];
  float x[kSlice][kTilePitch];
};
static_assert(sizeof(Tiles) <= 48 * 1024);

// The number of item i of this thread; a warp has consecutive items.
__device__ __forceinline__ int Item(int i) { return i * kThreads + static_cast<int>(threadIdx.x); }

// What a thread loads of the next columns of weights: some parts of some rows.
template <class Type>
struct NextWeights {
  static constexpr int kPartValues = Type::kGroups * Type::kGroupValues;
  static constexpr int kItems = kTile * (kDepth / kPartValues);
  static constexpr int kCount = (kItems + kThreads - 1) / kThreads;
  typename Type::Part parts[kCount] = {};

  __device__ static uint32_t Row(int i) {
    return blockIdx.x * kTile + static_cast<uint32_t>(Item(i) % kTile);
  }
  __device__ static uint32_t PartOf(int i, uint32_t first_column) {
    return first_column / kPartValues + static_cast<uint32_t>(Item(i) / kTile);
  }
  __device__ static bool IsThere(const Blocks& weights, uint32_t row, uint32_t part) {
    return row < weights.rows && part < weights.columns / Type::kValues * Type::kParts;
  }

  __device__ void Load(const Blocks& weights, uint32_t first_column) {
    MOEPACK_UNROLL
    for (int i = 0; i < kCount; ++i) {
      const uint32_t row = Row(i), part = PartOf(i, first_column);
      if (Item(i) >= kItems || !IsThere(weights, row, part)) continue;
      const uint64_t block = part / Type::kParts;
      parts[i] = Type::Load(weights.data + row * weights.row_bytes + block * Type::kBytes,
                            static_cast<int>(part % Type::kParts));
    }
  }

  // Zeros where there are no rows or columns.
  __device__ void Decode(const Blocks& weights, uint32_t first_column, Tiles& tiles) const {
    MOEPACK_UNROLL
    for (int i = 0; i < kCount; ++i) {
      if (Item(i) >= kItems) continue;
      const uint32_t row = Row(i), part = PartOf(i, first_column);
      const bool there = IsThere(weights, row, part);
      const auto of_block = static_cast<int>(part % Type::kParts);
      const int start =
          static_cast<int>(part / Type::kParts * Type::kValues) - static_cast<int>(first_column);
      MOEPACK_UNROLL
      for (int g = 0; g < Type::kGroups; ++g) {
        const auto group = Type::Decode(parts[i], of_block, g);
        const int first = start + Type::First(of_block, g);
        MOEPACK_UNROLL
        for (int j = 0; j < Type::kGroupValues; ++j) {
          tiles.weights[first + j][Item(i) % kTile] = there ? group.template Value<Type>(j) : 0.0f;
        }
      }
    }
  }
};

// What a thread loads of the next columns of x. A warp takes 8 columns of 4 tokens at a time, which
// lie in different banks of the tile.
struct NextX {
  static constexpr int kCount = kTile * kSlice / kThreads;
  float values[kCount];

  __device__ static int Column(int item) { return item % 8 + item / 32 % (kSlice / 8) * 8; }
  __device__ static int Token(int item) { return item / 8 % 4 + item / (kSlice * 4) * 4; }

  // Zeros where there are no tokens or columns.
  __device__ void Load(const Floats& x, uint32_t first_column) {
    MOEPACK_UNROLL
    for (int i = 0; i < kCount; ++i) {
      const uint32_t token = blockIdx.y * kTile + static_cast<uint32_t>(Token(Item(i)));
      const uint32_t column = first_column + static_cast<uint32_t>(Column(Item(i)));
      const bool there = token < x.count && column < x.width;
      values[i] = there ? x.data[token * x.stride + column] : 0.0f;
    }
  }
  __device__ void Store(Tiles& tiles) const {
    MOEPACK_UNROLL
    for (int i = 0; i < kCount; ++i) tiles.x[Column(Item(i))][Token(Item(i))] = values[i];
  }
};

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
